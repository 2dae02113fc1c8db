package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// set converts a text to the type of v.
func set(v reflect.Value, text string) (problem string) {
	switch into := v.Addr().Interface().(type) {
	case *Retention:
		*into, problem = parseRetention(text)
		return problem
	case *time.Duration:
		*into, problem = parseSpan(text)
		return problem
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		switch strings.ToLower(text) {
		case "true", "false":
			v.SetBool(strings.EqualFold(text, "true"))
		case "yes", "on", "y", "1":
			return fmt.Sprintf("%q is no truth value: write true", text)
		case "no", "off", "n", "0":
			return fmt.Sprintf("%q is no truth value: write false", text)
		default:
			return fmt.Sprintf("%q is no truth value: write true or false", text)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return setInt(v, text)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, v.Type().Bits())
		if err != nil || leadingZero(text) {
			return fmt.Sprintf("%q is no whole number that fits", text)
		}
		v.SetUint(n)
	case reflect.Float32, reflect.Float64:
		n, err := strconv.ParseFloat(text, v.Type().Bits())
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return fmt.Sprintf("%q is no number", text)
		}
		v.SetFloat(n)
	default:
		return "can't be set from YAML: its driver uses the type " + v.Type().String()
	}
	return ""
}

func setInt(v reflect.Value, text string) (problem string) {
	n, err := strconv.ParseInt(text, 10, v.Type().Bits())
	if err != nil && v.Kind() == reflect.Int64 {
		n, problem = parseSize(text) // bytes, in the options of a driver
		if problem != "" {
			return problem
		}
	} else if err != nil || leadingZero(text) {
		return fmt.Sprintf("%q is no whole number that fits", text)
	}
	v.SetInt(n)
	return ""
}

// leadingZero tells numbers that some take for octal.
func leadingZero(text string) bool {
	digits := strings.TrimLeft(text, "+-")
	return len(digits) > 1 && digits[0] == '0'
}

func typeName(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64:
		return "a number"
	default:
		return "a " + v.Type().Name()
	}
}
