// Command vectors asks Kubernetes' own parser what quantities mean.
//
// It reads JSON lines with a field "in" and prints them again with the parser's answers, so that
// adding a line {"in": "…"} and running
//
//	go run . <quantities.jsonl >new && mv new quantities.jsonl
//
// in this folder is all it takes to add a vector. "exact" is the number as parsed, in plain
// decimals: MilliValue and Value overflow silently, and only it tells when they did.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

type vector struct {
	In    string `json:"in"`
	OK    bool   `json:"ok"`
	Milli int64  `json:"milli"`
	Value int64  `json:"value"`
	Exact string `json:"exact"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		var asked vector
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			log.Fatal(err)
		}
		answer := vector{In: asked.In}
		if quantity, err := resource.ParseQuantity(asked.In); err == nil {
			answer.OK = true
			answer.Milli = quantity.MilliValue()
			answer.Value = quantity.Value()
			answer.Exact = quantity.AsDec().String()
		}
		if err := out.Encode(answer); err != nil {
			log.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}
