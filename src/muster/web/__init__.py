"""The dashboard: pages about a cluster, made on the server from the Kubernetes API alone.

`run` serves it, `app` has the table of pages. A page reads the live objects (`cluster`), calls a
pure view (`views`) and renders a template. `access` decides who may see it.

How a page stays live:

1. Objects. Each user has a `LiveCluster`: informers that list and watch what pages show. A page is
   made from their memory and sends no request for its objects.
2. Topics. A change of an object becomes names of what it affects, such as `jobs` and `job:a/b`
   (`cluster/watched_objects.py`). Every change has a number, the version
   (`cluster/subscriptions.py`).
3. Parts. A live part of a page is an element with `data-topic`, and `data-version`: the version of
   the objects that it was made from.
4. Stream. A browser has one stream of server-sent events, in a shared worker, for all its tabs
   (`static/stream.js`, `pages/stream.py`). The worker tells the server which topics the tabs show
   and in which versions; the server names those that have changed since, at most twice a second.
5. Fetch. A tab fetches the parts with such a topic as ordinary pages, of which it gets the part
   alone, and morphs them into the document (`static/app.js`, `context.page`). Tabs that fetch the
   same part at the same time get one text (`cluster/live_cluster.py`).

So nothing is pushed that a reload would not show, and a lost event only delays a part. Logs and
curves are different: they are data, not parts, and flow through the stream as feeds.
"""
