package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// maxInput bounds what is read from a file or from standard input.
const maxInput = 1 << 30

// input answers the bytes of VALUE: the argument itself, the file after an "@",
// or standard input for "-" and for none.
func (a *app) input(ctx context.Context, args []string) ([]byte, error) {
	if len(args) == 0 {
		if f, ok := a.in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return nil, usagef("give it as an argument or as @FILE, pipe it in, or write - to type it", "there is no VALUE")
		}
		args = []string{"-"}
	}
	switch v := args[0]; {
	case v == "-":
		b, err := patiently(ctx, func() ([]byte, error) { return readAll(a.in) })
		if err == nil && len(b) == 0 {
			err = usagef("an empty text is '\"\"'", "there is no VALUE: standard input is empty")
		}
		return b, err
	case len(v) > 1 && v[0] == '@':
		f, err := os.Open(v[1:])
		if err != nil {
			return nil, usagef("VALUE names a file after its @", "%w", err)
		}
		b, err := readAll(f)
		return b, errors.Join(err, f.Close())
	default:
		return []byte(v), nil
	}
}

// patiently waits for fn, which can't be interrupted, until ctx is over.
func patiently[T any](ctx context.Context, fn func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := fn()
		done <- answer{v, err}
	}()
	select {
	case got := <-done:
		return got.v, got.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err == nil && len(b) > maxInput {
		err = fmt.Errorf("%w: the value has more than %d bytes", tiers.ErrTooLarge, maxInput)
	}
	return b, err
}

// parse answers what to save: the JSON text itself for a JSON category, so that
// numbers stay as they were written, and else what it means.
func parse(b []byte, codec string, raw bool) (any, error) {
	if raw {
		return manager.Encoded{Value: b}, checkRaw(b, codec)
	}
	if codec == "gob" || codec == "raw" {
		return nil, usagef("add --raw to store bytes as they are", "values of codec %s can't be written as JSON", codec)
	}
	var v any
	if err := serializer.JSON().Decode(b, &v); err != nil {
		return nil, notJSON(b, err)
	}
	if codec == "json" {
		return manager.Encoded{Codec: "json", Value: bytes.TrimSpace(b)}, nil
	}
	if n, found := tooBig(v); found {
		return nil, usagef("write it as a text, in double quotes", "the number %s has more than 64 bits, which codec %s can't hold", n, codec)
	}
	return v, nil
}

// notJSON says what is wrong with a value, and how it would be written if it is
// meant as a text.
func notJSON(b []byte, err error) error {
	where := strings.TrimPrefix(err.Error(), tiers.ErrCorrupt.Error()+": ")
	if strings.HasSuffix(where, "is there twice") {
		return usagef("leave one of both out", "the value is not JSON that can be kept: %s", where)
	}
	if begin := bytes.TrimSpace(b); len(begin) > 0 && bytes.ContainsRune([]byte(`{["`), rune(begin[0])) {
		return usagef("in JSON the names of fields and all texts are in double quotes", "the value is not JSON: %s", where)
	}
	return usagef("text is written in double quotes, inside single quotes for the shell: "+quoted(b), "the value is not JSON: %s", where)
}

// checkRaw refuses what could not be read back, as far as that can be told
// without the value's Go type.
func checkRaw(b []byte, codec string) error {
	if codec != "msgpack" {
		return nil
	}
	var v any
	if err := serializer.Msgpack().Decode(b, &v); err != nil {
		return usagef("--raw takes the bytes as the codec makes them; leave it out to give JSON", "the value is not msgpack: %w", err)
	}
	return nil
}

// tooBig finds a whole number that only JSON can hold.
func tooBig(v any) (n json.Number, found bool) {
	switch v := v.(type) {
	case json.Number:
		return v, true // serializer makes it of nothing smaller
	case []any:
		for _, one := range v {
			if n, found := tooBig(one); found {
				return n, true
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if n, found := tooBig(v[key]); found {
				return n, true
			}
		}
	}
	return "", false
}

// quoted is the text as it would be written as JSON in a shell.
func quoted(b []byte) string {
	text := string(bytes.TrimSpace(b))
	if r := []rune(text); len(r) > 40 {
		text = string(r[:40]) + "..."
	}
	j, err := encode(text, "")
	if err != nil {
		j = []byte(strconv.Quote(text))
	}
	j = bytes.TrimSpace(j)
	return "'" + string(bytes.ReplaceAll(j, []byte("'"), []byte(`'\''`))) + "'"
}

// asJSON answers the value of an item as JSON.
func asJSON(item manager.Item, e manager.Encoded) (json.RawMessage, error) {
	switch e.Codec {
	case "json":
		return json.RawMessage(e.Value), nil
	case "gob", "raw":
		return nil, usagef("add --raw to get the bytes", "a value of codec %s can't be shown as JSON", e.Codec)
	}
	var v any
	if err := item.Decode(&v); err != nil {
		return nil, err
	}
	b, err := serializer.JSON().Append(nil, v)
	if fault, ok := errors.AsType[*tiers.Error](err); ok {
		// Its hint is about a save.
		err = tiers.Hint(fmt.Errorf("it can't be shown as JSON: %w", fault.Err), "load --raw prints the bytes")
	}
	k := tiers.Key{Namespace: item.Namespace, Category: item.Category, Name: item.Key}
	return b, tiers.Fail("load", item.Tier, k, err)
}
