package database

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/tiers"
)

func TestRowsOfACopyAreThoseThatWaited(t *testing.T) {
	s := openAccounts(t, filepath.Join(t.TempDir(), "sage.db"))
	var rows []tiers.Row
	for i := range pageRows + 20 {
		rows = append(rows, tiers.Row{Tier: "file", Owner: "o", Over: tiers.If(3), Record: tiers.Record{
			Key: tiers.Key{Namespace: "acme", Category: "a.b", Name: fmt.Sprintf("k-%d", i)}, Codec: "raw", Schema: 7, Flags: tiers.Enveloped,
			Deleted: i%5 == 0, Value: []byte{0, byte(i)}, Expires: tiers.FromMicro(1 << 55),
		}})
	}
	rows[7].Value = make([]byte, pageBytes+1)
	if _, err := s.Append(t.Context(), rows, nil, 0); err != nil {
		t.Fatal(err)
	}
	want, err := s.Queue(t.Context(), 0, 2*len(rows))
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Freeze(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "copy.db")
	copyTo(t, f, path)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	c, ok := mustOpenCopy(t, path).(tiers.RowCopy)
	if !ok {
		t.Fatal("it has no rows")
	}
	var got []tiers.Row
	for r, err := range c.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	for _, all := range [][]tiers.Row{want, got} { // to compare it byte by byte takes long
		if len(all) > 7 && len(all[7].Value) == pageBytes+1 {
			all[7].Value = nil
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(tiers.Cond{})); diff != "" || len(got) != len(rows) {
		t.Errorf("%d rows (-waiting +copied):\n%s", len(got), diff)
	}
}
