package config

import (
	"fmt"
	"strings"

	"filippo.io/age"
)

// checkRecipient answers what is wrong with a text that should hold public keys of age.
func checkRecipient(text string) (problem string) {
	if strings.Contains(strings.ToUpper(text), "AGE-SECRET-KEY-") {
		return "holds a secret key: write the public one, which begins with age1"
	}
	if strings.HasPrefix(text, "ssh-") {
		return "holds a public key of ssh, which is not supported: write one of age, which begins with age1"
	}
	if _, err := age.ParseRecipients(strings.NewReader(text)); err == nil {
		return ""
	}
	if strings.HasPrefix(text, "age1") {
		return fmt.Sprintf("%q is no public key of age: a letter of it is wrong or missing; age-keygen -y shows the right one", text)
	}
	return "holds a text that is no public key: one begins with age1"
}

// checkIdentity answers what is wrong with a text that should hold private keys of age,
// without showing it.
func checkIdentity(text string) (problem string) {
	if _, err := age.ParseIdentities(strings.NewReader(text)); err == nil {
		return ""
	}
	if strings.Contains(text, "AGE-SECRET-KEY-") {
		return "holds a private key of age with a letter that is wrong or missing (not shown): copy it again"
	}
	return "holds a text that is no private key of age (not shown): one begins with AGE-SECRET-KEY-1, and age-keygen makes one"
}

// checkCronDay answers that no month of a valid expression has one of its days. A
// weekday of its own makes up for that.
func checkCronDay(text string) (problem string) {
	fields := strings.Fields(text)
	every := func(field string) bool {
		for part := range strings.SplitSeq(field, ",") {
			if part == "*" || part == "*/1" {
				return true
			}
		}
		return false
	}
	if every(fields[2]) || !every(fields[4]) {
		return ""
	}
	lengths := []int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	longest := 0
	for _, month := range cronNumbers(fields[3], 1, 12, monthWords) {
		longest = max(longest, lengths[month-1])
	}
	for _, day := range cronNumbers(fields[2], 1, 31, "") {
		if day <= longest {
			return ""
		}
	}
	return fmt.Sprintf("%q never comes: there is no day %s in month %s", text, fields[2], fields[3])
}

const monthWords = "jan feb mar apr may jun jul aug sep oct nov dec"

// cronNumbers lists what a valid field stands for.
func cronNumbers(field string, low, high int, words string) (all []int) {
	for part := range strings.SplitSeq(field, ",") {
		span, step, stepped := strings.Cut(part, "/")
		by := 1
		if stepped {
			by, _ = cronNumber(step, 1, high, nil)
		}
		from, to, ranged := strings.Cut(span, "-")
		a, b := low, high
		if span != "*" {
			a, _ = cronNumber(from, low, high, strings.Fields(words))
			switch {
			case ranged:
				b, _ = cronNumber(to, low, high, strings.Fields(words))
			case !stepped:
				b = a
			}
		}
		for n := a; n <= b; n += max(by, 1) {
			all = append(all, n)
		}
	}
	return all
}
