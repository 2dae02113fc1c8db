package postgres

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/tiers"
)

func TestRowsOfACopyAreThoseThatWaited(t *testing.T) {
	t.Parallel()
	s := full(t)
	for i := range 20 {
		must[[]tiers.Row](t)(s.Append(t.Context(), []tiers.Row{{Tier: "file", Owner: "o", Record: tiers.Record{
			Key: tiers.Key{Namespace: "acme", Category: "a.b", Name: fmt.Sprintf("tab\t%d", i)}, Codec: "raw", Schema: 7, Flags: tiers.Enveloped,
			Deleted: i%5 == 0, Value: []byte{0, '\t', byte(i)}, Expires: tiers.FromMicro(1 << 55),
		}}}, nil, 0))
	}
	path, _ := copyOf(t, s)
	c := must[tiers.Copy](t)(Copies().OpenCopy(t.Context(), path))
	defer func() { _ = c.Close() }()
	rows, ok := c.(tiers.RowCopy)
	if !ok {
		t.Fatal("it has no rows")
	}
	var got []tiers.Row
	for r, err := range rows.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	want := must[[]tiers.Row](t)(s.Queue(t.Context(), 0, 100))
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(tiers.Cond{})); diff != "" || len(got) != 21 {
		t.Errorf("%d rows (-waiting +copied):\n%s", len(got), diff)
	}
}
