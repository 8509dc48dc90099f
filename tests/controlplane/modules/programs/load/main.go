// Load on an API server: many requests at once, and the rate at which they are answered.
//
//	api-load -url URL -ca FILE -kind configmaps|pods -verb create|get|watch -prefix P -count N
//
// The bearer token is in $TOKEN. Prints one JSON line: {"perSecond": N}. It is plain net/http with
// the connections that client-go makes (HTTP/2 where the server has it), and does not decode
// answers, so that the load costs little beside the server on the same machine.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type load struct {
	url, prefix, kind string
	count, parallel   int
	watchers          int
	trust             *tls.Config
	token             string
}

func main() {
	l := &load{token: os.Getenv("TOKEN")}
	authority := flag.String("ca", "", "certificate of the server's authority")
	verb := flag.String("verb", "create", "create, get or watch")
	flag.StringVar(&l.url, "url", "", "address of the server")
	flag.StringVar(&l.prefix, "prefix", "load", "names of objects begin so")
	flag.StringVar(&l.kind, "kind", "configmaps", "configmaps or pods")
	flag.IntVar(&l.count, "count", 1000, "requests")
	flag.IntVar(&l.parallel, "parallel", 32, "requests at once")
	flag.IntVar(&l.watchers, "watchers", 10, "watches while objects are created")
	flag.Parse()
	rate, err := l.run(*authority, *verb)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("{\"perSecond\": %.1f}\n", rate)
}

func (l *load) run(authority, verb string) (float64, error) {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return 0, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return 0, errors.New("no certificate in " + authority)
	}
	l.trust = &tls.Config{RootCAs: pool}
	switch verb {
	case "create":
		return l.measure(l.create)
	case "get":
		return l.measure(l.get)
	case "watch":
		return l.watch()
	}
	return 0, errors.New("unknown verb " + verb)
}

func (l *load) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: l.trust, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: l.parallel,
	}}
}

func (l *load) path() string { return l.url + "/api/v1/namespaces/default/" + l.kind }
func (l *load) name(number int) string {
	return fmt.Sprintf("%s-%06d", l.prefix, number)
}

// measure sends all requests from many goroutines and returns requests per second.
func (l *load) measure(send func(*http.Client, int) error) (float64, error) {
	client := l.client()
	if err := l.send(client, "GET", l.url+"/version", "", 200); err != nil { // connect first
		return 0, err
	}
	var next atomic.Int64
	var group sync.WaitGroup
	failed := make(chan error, l.parallel)
	start := time.Now()
	for range l.parallel {
		group.Go(func() {
			for number := int(next.Add(1)); number <= l.count; number = int(next.Add(1)) {
				if err := send(client, number); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	took := time.Since(start).Seconds()
	select {
	case err := <-failed:
		return 0, err
	default:
		return float64(l.count) / took, nil
	}
}

func (l *load) create(client *http.Client, number int) error {
	body := configMap
	if l.kind == "pods" {
		body = pod
	}
	return l.send(client, "POST", l.path(), strings.ReplaceAll(body, "NAME", l.name(number)), 201)
}

func (l *load) get(client *http.Client, number int) error {
	return l.send(client, "GET", l.path()+"/"+l.name(number), "", 200)
}

func (l *load) send(client *http.Client, method, url, body string, wanted int) error {
	response, err := l.open(client, method, url, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != wanted {
		err = fmt.Errorf("%s %s: %d %s", method, url, response.StatusCode, text)
	}
	return err
}

func (l *load) open(client *http.Client, method, url, body string) (*http.Response, error) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+l.token)
	request.Header.Set("Accept", "application/json")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	return client.Do(request)
}

// watch creates objects while watchers, each with a connection of its own, follow them. It returns
// events per second, until the last watcher has the last event.
func (l *load) watch() (float64, error) {
	version, err := l.version()
	if err != nil {
		return 0, err
	}
	var group sync.WaitGroup
	failed := make(chan error, l.watchers)
	for range l.watchers {
		response, err := l.open(l.client(), "GET", l.path()+"?watch=1&resourceVersion="+version, "")
		if err != nil {
			return 0, err
		}
		if response.StatusCode != 200 {
			return 0, fmt.Errorf("watch: %d", response.StatusCode)
		}
		group.Go(func() {
			defer response.Body.Close()
			failed <- readEvents(response.Body, l.count)
		})
	}
	start := time.Now()
	if _, err := l.measure(l.create); err != nil {
		return 0, err
	}
	group.Wait()
	took := time.Since(start).Seconds()
	for range l.watchers {
		if err := <-failed; err != nil {
			return 0, err
		}
	}
	return float64(l.count*l.watchers) / took, nil
}

// version is the resourceVersion of an empty page of the collection.
func (l *load) version() (string, error) {
	response, err := l.open(l.client(), "GET", l.path()+"?limit=1", "")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	err = json.NewDecoder(response.Body).Decode(&list)
	return list.Metadata.ResourceVersion, err
}

func readEvents(body io.Reader, count int) error {
	lines := bufio.NewReaderSize(body, 1<<16)
	for seen := 0; seen < count; {
		_, more, err := lines.ReadLine()
		if err != nil {
			return fmt.Errorf("the watch ended after %d events: %w", seen, err)
		}
		if !more {
			seen++
		}
	}
	return nil
}

const configMap = `{"metadata":{"name":"NAME","labels":{"load":"yes"}},"data":{"a":"1","b":"2"}}`

const pod = `{"metadata":{"name":"NAME","labels":{"job":"train","replica":"NAME","role":"worker"}},
"spec":{"restartPolicy":"Never","containers":[{"name":"tensorflow","image":"tensorflow/tensorflow:2.21.0",
"command":["python","train.py"],"args":["--steps=100"],
"env":[{"name":"TF_CONFIG","value":"{}"},{"name":"RANK","value":"0"}],
"ports":[{"name":"tf","containerPort":2222}],
"resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"memory":"2Gi"}},
"volumeMounts":[{"name":"data","mountPath":"/data"}]}],
"volumes":[{"name":"data","emptyDir":{}}]}}`
