package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// maxInput bounds what is read from a file or from standard input.
const maxInput = 1 << 30

// input answers the bytes of VALUE: the argument itself, the file after an "@",
// or standard input for "-" and for none.
func (a *app) input(args []string) ([]byte, error) {
	if len(args) == 0 {
		if f, ok := a.in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return nil, usagef("give it as an argument, as @FILE, or pipe it in", "there is no VALUE")
		}
		args = []string{"-"}
	}
	switch v := args[0]; {
	case v == "-":
		return readAll(a.in)
	case len(v) > 1 && v[0] == '@':
		f, err := os.Open(v[1:])
		if err != nil {
			return nil, usagef("", "%w", err)
		}
		b, err := readAll(f)
		return b, errors.Join(err, f.Close())
	default:
		return []byte(v), nil
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
		return manager.Encoded{Value: b}, nil
	}
	if codec == "gob" || codec == "raw" {
		return nil, usagef("add --raw to store bytes as they are", "values of codec %s can't be written as JSON", codec)
	}
	if !json.Valid(b) {
		return nil, usagef("text is written in double quotes, inside single quotes for the shell: "+quoted(b), "the value is not JSON")
	}
	if codec == "json" {
		return manager.Encoded{Codec: "json", Value: bytes.TrimSpace(b)}, nil
	}
	var v any
	if err := serializer.JSON().Decode(b, &v); err != nil {
		return nil, usagef("", "the value: %w", err)
	}
	return v, nil
}

// quoted is the text as it would be written as JSON in a shell.
func quoted(b []byte) string {
	text := string(bytes.TrimSpace(b))
	if r := []rune(text); len(r) > 40 {
		text = string(r[:40]) + "..."
	}
	j, err := json.Marshal(text)
	if err != nil {
		j = []byte(strconv.Quote(text))
	}
	return "'" + string(bytes.ReplaceAll(j, []byte("'"), []byte(`'\''`))) + "'"
}

// asJSON answers a stored value as JSON.
func asJSON(e manager.Encoded, decode func(into any) error) (json.RawMessage, error) {
	switch e.Codec {
	case "json":
		return json.RawMessage(e.Value), nil
	case "gob", "raw":
		return nil, usagef("add --raw to get the bytes", "a value of codec %s can't be shown as JSON", e.Codec)
	}
	var v any
	if err := decode(&v); err != nil {
		return nil, err
	}
	return serializer.JSON().Append(nil, v)
}
