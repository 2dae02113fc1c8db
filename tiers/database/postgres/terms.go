package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// The words of a record stand in its row with their grades, each as the word and a
// character that says which. A mark ends in one that says that it is a mark. Before them
// all comes what the record is ordered by. Rows of earlier versions have words without a
// grade, and no order: they count as if they had the highest.
const (
	gradeSign = '\u0080' // that of grade 0
	markSign  = '\u0090'
	orderSign = "\u0091" // SQL says it too
)

// graded is a word of a grade.
func graded(word string, grade int) string {
	return word + string(gradeSign+rune(grade)) //nolint:gosec // at most tiers.MaxGrade
}

// ordered stands before the words. As texts compare, so do the orders.
func ordered(order int64) string { return fmt.Sprintf("%s%012x", orderSign, order) }

// orderIn reads what ordered has written.
func orderIn(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimPrefix(text, orderSign), 16, 64)
	if err != nil { // the record has none
		return tiers.MaxOrder
	}
	return n
}

// entryWords are the order, the words and the marks of a text, separated by spaces.
func entryWords(t *tiers.IndexText) string {
	all := make([]string, 0, len(t.Words)+len(t.Marks))
	for i, w := range t.Words {
		grade := 0
		if t.Grades != nil {
			grade = int(t.Grades[i])
		}
		all = append(all, graded(w, grade))
	}
	for _, m := range t.Marks {
		all = append(all, m+string(markSign))
	}
	slices.Sort(all)
	return strings.Join(append([]string{ordered(t.Order)}, slices.Compact(all)...), " ")
}

// ofGrades are the terms of a word that has one of some grades.
func ofGrades(word string, from, to int) (terms []string) {
	if to == tiers.MaxGrade {
		terms = []string{word}
	}
	for g := from; g <= to; g++ {
		terms = append(terms, graded(word, g))
	}
	return terms
}

// enoughWords is how many words are looked for at most: of very many some. More is found
// then, which the caller sorts out.
const enoughWords = 24

// looking is a search with the parameters of its query.
type looking struct {
	tiers.Search
	args []any
}

func (l *looking) parameter(v any) string {
	l.args = append(l.args, v)
	return "$" + strconv.Itoa(len(l.args))
}

func (l *looking) has(word string, from, to int) string {
	return " AND words && " + l.parameter(ofGrades(word, from, to)) + "::text[]"
}

// anyGrade is the condition on the rows that are looked for.
func (l *looking) anyGrade() string {
	var sql strings.Builder
	for _, w := range some(l.Words) {
		sql.WriteString(l.has(w, 0, tiers.MaxGrade))
	}
	return sql.String() + l.besides()
}

// besides is the condition on what is no word.
func (l *looking) besides() (sql string) {
	if len(l.Marks) > 0 {
		marks := make([]string, 0, len(l.Marks))
		for _, m := range l.Marks {
			marks = append(marks, m+string(markSign))
		}
		sql = " AND words @> " + l.parameter(marks) + "::text[]"
	}
	if l.Part != "" {
		sql += " AND grams @> " + l.parameter(gramsOf(l.Part)) + "::bigint[]"
	}
	return sql
}

// ofGrade are conditions on the rows of one grade, which no two hold for: the first word of
// that grade is the first of all, or the second, and so on. So the index says all. To look
// at a row takes long, for its many words.
func (l *looking) ofGrade(grade int) []string {
	besides, words := l.besides(), some(l.Words)
	if len(words) == 0 {
		return []string{besides}
	}
	var all []string
	for first := range words {
		var sql strings.Builder
		for i, w := range words {
			switch {
			case i < first:
				sql.WriteString(l.has(w, grade+1, tiers.MaxGrade))
			case i == first:
				sql.WriteString(l.has(w, grade, grade))
			default:
				sql.WriteString(l.has(w, grade, tiers.MaxGrade))
			}
		}
		if all = append(all, sql.String()+besides); grade == tiers.MaxGrade {
			break
		}
	}
	return all
}

func some(words []string) []string { return words[:min(len(words), enoughWords)] }
