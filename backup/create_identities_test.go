package backup

import (
	"errors"
	"os"
	"strings"
	"testing"

	"filippo.io/age"
)

func TestABackupThatTheIdentitiesDoNotOpenIsNotMade(t *testing.T) {
	var keys []*age.X25519Identity
	for range 3 {
		k, err := age.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	public := func(i int) string { return keys[i].Recipient().String() }
	secret := func(i int) string { return keys[i].String() }
	s := newStore(t, t.TempDir())
	for _, c := range []struct {
		why                    string
		recipients, identities []string
		refused                bool
	}{
		{"it is the key of another", []string{public(0)}, []string{secret(1)}, true},
		{"they are the keys of others", []string{public(0)}, []string{secret(1), secret(2)}, true},
		{"one of two opens it", []string{public(0)}, []string{secret(1), secret(0)}, false},
		{"it is for two", []string{public(0), public(1)}, []string{secret(1)}, false},
		{"the identities are elsewhere", []string{public(0)}, nil, false},
		{"nothing is encrypted", nil, []string{secret(1)}, false},
	} {
		dir := t.TempDir()
		o := options(t)
		o.Recipients, o.Identities = c.recipients, c.identities
		_, _, err := mustRepo(t, Dir(dir), o).Create(t.Context(), s.source(t))
		if !c.refused {
			if err != nil {
				t.Errorf("%s: %v", c.why, err)
			}
			continue
		}
		if !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "no identity opens") {
			t.Errorf("%s: got %v, want ErrKey", c.why, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: written are %v, %v", c.why, left, err)
		}
	}
}
