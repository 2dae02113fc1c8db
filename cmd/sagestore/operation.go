package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sagestore/sagestore/internal/nearest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// maxOperations bounds the size of a file of operations: what a transaction may
// change fits in.
const maxOperations = txn.DefaultLimit

// operation is one line of the file that apply takes.
type operation struct {
	line      int
	op        string
	category  string
	store     string
	byStore   bool // store was given instead of category
	namespace *string
	key       string
	value     []byte // JSON
	life      manager.Life
	version   *uint64
	ifAbsent  bool
}

// takes answers the fields that go with an operation.
func takes(op string) []string {
	fields := []string{"op", "category", "store", "namespace", "key"}
	switch op {
	case "save":
		return append(fields, "value", "ttl", "if_version", "if_absent")
	case "delete":
		return append(fields, "if_version")
	case "touch":
		return append(fields, "ttl")
	}
	return nil
}

// readOperations reads the whole file and answers what is right; what is wrong
// with other lines is added to wrong.
func readOperations(r io.Reader, wrong *linesError) (ops []operation) {
	in, codec := bufio.NewReaderSize(r, 1<<16), serializer.JSON()
	for line, left := 1, int64(maxOperations); ; line++ {
		text, err := readLine(in, left)
		left -= int64(len(text))
		if err != nil && !errors.Is(err, io.EOF) {
			wrong.add(line, err)
			return nil
		}
		if len(bytes.TrimSpace(text)) > 0 {
			o, fault := parseOperation(codec, bytes.TrimRight(text, "\r\n"))
			o.line = line
			wrong.add(line, fault)
			if fault == nil {
				ops = append(ops, o)
			}
		}
		if err != nil {
			return ops
		}
	}
}

// readLine reads up to and including the next line feed, and gives up on more
// than most bytes.
func readLine(in *bufio.Reader, most int64) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if int64(len(line)) > most {
			return nil, tiers.Hint(fmt.Errorf("%w: the operations have more than %d bytes up to here", tiers.ErrTooLarge, maxOperations),
				"do the work in several transactions")
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// parseOperation reads one line.
func parseOperation(codec serializer.Codec, text []byte) (o operation, err error) {
	var fields map[string]json.RawMessage
	if err := codec.Decode(text, &fields); err != nil {
		return o, notAnOperation(err)
	}
	if fields == nil {
		return o, notAnOperation(errors.New("it is null"))
	}
	op, err := textOf(fields, "op")
	if err != nil {
		return o, err
	}
	known := takes(op)
	if known == nil {
		hint := "the operations are save, delete and touch"
		if near := nearest.Name(op, []string{"save", "delete", "touch"}); near != "" {
			hint = "did you mean " + near + "?"
		}
		return o, usagef(hint, "there is no operation %q", op)
	}
	for _, name := range sortedNames(fields) {
		if slices.Contains(known, name) {
			continue
		}
		hint := "it takes " + strings.Join(known, ", ")
		if near := nearest.Name(name, known); near != "" {
			hint = "did you mean " + near + "?"
		}
		return o, usagef(hint, "%s has no field %q", op, name)
	}
	o.op = op
	return o, o.fill(fields)
}

// notAnOperation is the error of a line that is no JSON object. That the text is
// of one line is known.
func notAnOperation(err error) error {
	where := strings.TrimPrefix(err.Error(), tiers.ErrCorrupt.Error()+": ")
	where = strings.TrimPrefix(strings.TrimPrefix(where, tiers.ErrType.Error()+": "), "line 1, ")
	if errors.Is(err, tiers.ErrType) {
		where = "it is another JSON value"
	}
	return usagef(`a line is like {"op":"save","category":"session.preferences","key":"user-42","value":{}}`, "this is not one JSON object: %s", where)
}

func sortedNames(fields map[string]json.RawMessage) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// fill takes over the fields.
func (o *operation) fill(fields map[string]json.RawMessage) (err error) {
	_, byCategory := fields["category"]
	_, o.byStore = fields["store"]
	switch {
	case byCategory && o.byStore:
		return usagef("leave one of both out", "there are category and store")
	case !byCategory && !o.byStore:
		return usagef(`"store" names a tier instead, as --store does`, "there is no category")
	case byCategory:
		o.category, err = textOf(fields, "category")
	default:
		o.store, err = textOf(fields, "store")
	}
	if err == nil {
		o.key, err = textOf(fields, "key")
	}
	if err == nil {
		err = tiers.CheckName(o.key)
	}
	if _, there := fields["namespace"]; there && err == nil {
		var name string
		if name, err = textOf(fields, "namespace"); err == nil {
			o.namespace, err = &name, tiers.CheckNamespace(name)
		}
	}
	if err != nil {
		return err
	}
	return o.fillOptions(fields)
}

func (o *operation) fillOptions(fields map[string]json.RawMessage) (err error) {
	var there bool
	if o.value, there = fields["value"]; !there && o.op == "save" {
		return usagef(`null is a value as well: "value":null`, "there is no value")
	}
	if _, there := fields["ttl"]; there {
		text, err := textOf(fields, "ttl")
		if err != nil {
			return err
		}
		if o.life, err = lifeOf(text); err != nil {
			return usagef(`write seconds, or 90s, 15m, 24h, 30d, 2w, never`, `ttl %q is no duration`, text)
		}
	}
	if raw, there := fields["if_version"]; there {
		n, err := strconv.ParseUint(string(raw), 10, 64)
		if err != nil {
			return wrongType("if_version", "a whole number from 0")
		}
		o.version = &n
	}
	if raw, there := fields["if_absent"]; there {
		if o.ifAbsent = string(raw) == "true"; !o.ifAbsent && string(raw) != "false" {
			return wrongType("if_absent", "true or false")
		}
	}
	if o.ifAbsent && o.version != nil {
		return usagef(`"if_version":0 is "if_absent":true`, "if_absent and if_version exclude each other")
	}
	return nil
}

// textOf answers a field that has to be there and a text.
func textOf(fields map[string]json.RawMessage, name string) (string, error) {
	raw, there := fields[name]
	if !there {
		return "", usagef("", "there is no %s", name)
	}
	var text string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return "", wrongType(name, `a text in double quotes`)
	}
	// Package json puts a replacement character where half a character is escaped.
	written := bytes.Count(raw, []byte("\ufffd")) + bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`))
	if strings.Count(text, "\ufffd") > written {
		return "", usagef(`a character beyond U+FFFF is two escapes, such as "\ud83d\ude00"`, "%s holds half a character", name)
	}
	return text, nil
}

func wrongType(name, want string) error {
	return usagef("", "%s is %s", name, want)
}

// saveOptions answers the options of a save.
func (o *operation) saveOptions() (opts []manager.SaveOption) {
	if o.life != nil {
		opts = append(opts, o.life)
	}
	if o.version != nil {
		opts = append(opts, manager.IfVersion(tiers.Version(*o.version)))
	}
	if o.ifAbsent {
		opts = append(opts, manager.IfAbsent())
	}
	return opts
}
