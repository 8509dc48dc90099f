// Command vectors asks Kubernetes' own parsers what quantities and selectors mean.
//
// It reads JSON lines with a field "in" (and for selectors "on": labels or fields to match) and
// prints them again with the parsers' answers. So adding such a line and running
//
//	go run . quantities <quantities.jsonl >new && mv new quantities.jsonl
//
// in this folder is all it takes to add a vector; likewise `labels` and `fields`.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// quantity: MilliValue and Value overflow silently; only "exact", the number as parsed in plain
// decimals, tells when they did. "text" is how the API server writes the quantity back.
type quantity struct {
	In    string `json:"in"`
	OK    bool   `json:"ok"`
	Milli int64  `json:"milli"`
	Value int64  `json:"value"`
	Exact string `json:"exact"`
	Text  string `json:"text"`
}

type selector struct {
	In      string              `json:"in"`
	OK      bool                `json:"ok"`
	On      []map[string]string `json:"on"`
	Matches []bool              `json:"matches"`
}

func askQuantity(line []byte) any {
	var asked quantity
	check(json.Unmarshal(line, &asked))
	answer := quantity{In: asked.In}
	if parsed, err := resource.ParseQuantity(asked.In); err == nil {
		answer.OK = true
		answer.Milli = parsed.MilliValue()
		answer.Value = parsed.Value()
		answer.Text = parsed.String()
		answer.Exact = parsed.AsDec().String()
	}
	return answer
}

func askLabels(line []byte) any {
	var asked selector
	check(json.Unmarshal(line, &asked))
	answer := selector{In: asked.In, On: asked.On, Matches: []bool{}}
	if parsed, err := labels.Parse(asked.In); err == nil {
		answer.OK = true
		for _, set := range asked.On {
			answer.Matches = append(answer.Matches, parsed.Matches(labels.Set(set)))
		}
	}
	return answer
}

func askFields(line []byte) any {
	var asked selector
	check(json.Unmarshal(line, &asked))
	answer := selector{In: asked.In, On: asked.On, Matches: []bool{}}
	if parsed, err := fields.ParseSelector(asked.In); err == nil {
		answer.OK = true
		for _, set := range asked.On {
			answer.Matches = append(answer.Matches, parsed.Matches(fields.Set(set)))
		}
	}
	return answer
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	asks := map[string]func([]byte) any{
		"quantities": askQuantity, "labels": askLabels, "fields": askFields,
	}
	if len(os.Args) != 2 || asks[os.Args[1]] == nil {
		log.Fatal("usage: go run . quantities|labels|fields <OLD >NEW")
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		check(out.Encode(asks[os.Args[1]](lines.Bytes())))
	}
	check(lines.Err())
}
