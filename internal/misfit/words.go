package misfit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// says is a sentence about a field. With same the kind is right, and the value is not.
func says(field, there string, wanted reflect.Type, same bool) string {
	if field == "" {
		field = "it"
	}
	if same {
		return fmt.Sprintf("%s does not fit; %s is wanted", field, wordFor(wanted))
	}
	return fmt.Sprintf("%s is %s; %s is wanted", field, there, wordFor(wanted))
}

// kindOf names what a JSON value is.
func kindOf(value []byte) string {
	if len(value) == 0 {
		return "nothing"
	}
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// kindNamed names what encoding/json calls a kind.
func kindNamed(value string) (name string, same bool) {
	kind, _, outOfRange := strings.Cut(value, " ")
	switch kind {
	case "string":
		return "a text", outOfRange
	case "bool":
		return "true or false", outOfRange
	case "array":
		return "a list", outOfRange
	case "object":
		return "an object", outOfRange
	case "null":
		return "null", outOfRange
	}
	return "a number", outOfRange
}

// sameKind tells whether a value is of the kind that is wanted.
func sameKind(f *finding) bool {
	there := kindOf(f.value)
	return there == wordFor(f.wanted) || there == "a number" && strings.Contains(wordFor(f.wanted), "number") && !whole(f.value)
}

// whole tells of a number without a fraction.
func whole(value []byte) bool {
	_, is := new(big.Int).SetString(string(value), 10)
	return is
}

// wordFor names what a type wants.
func wordFor(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Time]() {
		return "a time such as 2026-01-02T03:04:05Z"
	}
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Int8, reflect.Int16, reflect.Int32:
		most := int64(1) << (t.Bits() - 1)
		return fmt.Sprintf("a whole number from %d to %d", -most, most-1)
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return "a whole number from 0"
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return fmt.Sprintf("a whole number from 0 to %d", uint64(1)<<t.Bits()-1)
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && !own(t) {
			return "a text in base64"
		}
		return "a list"
	case reflect.Array:
		return fmt.Sprintf("a list of %d", t.Len())
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "something else"
	}
}

// unfit is an error of package serializer.
type unfit interface {
	error
	Misfit() (field, value string, wanted reflect.Type)
}

// noTime is what package time says of JSON that is no text.
const noTime = "Time.UnmarshalJSON: input is not a JSON string"

// Words is what an error says, without the names of Go's types where those that it is
// made of know better.
func Words(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	replaceAll(err, func(e error) {
		if words := wordsOf(e); words != "" {
			text = strings.ReplaceAll(text, e.Error(), words)
		}
	})
	text = strings.ReplaceAll(text, "json: unknown field ", "there is no field ")
	return strings.ReplaceAll(text, noTime, "a time is no text")
}

func wordsOf(err error) string {
	switch e := err.(type) { //nolint:errorlint // the chain is walked
	case unfit:
		field, value, wanted := e.Misfit()
		switch {
		case value == "" && errors.As(e, new(*time.ParseError)), value == "" && strings.Contains(e.Error(), noTime):
			return "what is stored does not fit: a time in it is none such as 2026-01-02T03:04:05Z"
		case value == "":
			return "what is stored does not fit; " + wordFor(wanted) + " is wanted"
		}
		there, same := kindNamed(value)
		return says(field, there, wanted, same)
	case *json.UnmarshalTypeError:
		there, same := kindNamed(e.Value)
		return says(e.Field, there, e.Type, same)
	case *time.ParseError:
		return "it is no time such as 2026-01-02T03:04:05Z"
	case *strconv.NumError:
		return "it is no number, or too large"
	}
	return ""
}

// replaceAll calls fn for each error of a tree, from the outside in.
func replaceAll(err error, fn func(error)) {
	if err == nil {
		return
	}
	fn(err)
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case interface{ Unwrap() error }:
		replaceAll(e.Unwrap(), fn)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			replaceAll(one, fn)
		}
	}
}
