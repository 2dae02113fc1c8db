package redis

import (
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func TestServerTimeIsEstimatedFromBelow(t *testing.T) {
	const us = time.Microsecond
	type reply struct {
		server         int64
		sent, received time.Duration
	}
	for _, c := range []struct {
		why     string
		replies []reply
		lo, hi  int64 // of server minus own time
	}{
		{"one reply bounds it", []reply{{1_000_500, 0, 1000 * us}}, 999_499, 999_500},
		{"a quicker reply narrows it", []reply{{1_000_500, 0, 1000 * us}, {1_002_050, 2000 * us, 2100 * us}}, 999_949, 999_950},
		{"a slower one does not widen it", []reply{{1_000_050, 0, 100 * us}, {1_005_500, 5000 * us, 9000 * us}}, 999_949, 999_950},
		{"a clock that was set back is followed", []reply{{1_000_050, 0, 100 * us}, {5_050, 5000 * us, 5100 * us}}, -51, -50},
		{"a clock that was set ahead is followed", []reply{{1_000_050, 0, 100 * us}, {9_005_050, 5000 * us, 5100 * us}}, 8_999_949, 8_999_950},
	} {
		s := newServerTime()
		if _, ok := s.estimate(); ok {
			t.Error("there is an estimate without any reply")
		}
		for _, r := range c.replies {
			s.sample(r.server, r.sent, r.received)
		}
		if got := s.at(0); got < c.lo || got > c.hi {
			t.Errorf("%s: the server is ahead by %d, want %d to %d", c.why, got, c.lo, c.hi)
		}
	}
}

func TestOldServersAreTold(t *testing.T) {
	for version, old := range map[string]bool{
		"5.0.14": true, "6.0.16": true, "6.1.9": true, "6.2.0": false, "7.0.15": false, "8.2.1": false, "10.0.0": false, "255.255.255": false, "": false, "unstable": false,
	} {
		if tooOld(version) != old {
			t.Errorf("%q: too old is %v", version, !old)
		}
	}
}

func TestSpacesHaveOneNameEach(t *testing.T) {
	n, err := newNames("p", "e")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{n.mark: true, n.spaces: true}
	for _, namespace := range []string{"", "a", "b", "0"} {
		for _, category := range []string{"a", "a.b", "b", "a.0", "0", "0.0"} {
			k := tiers.Key{Namespace: namespace, Category: category, Name: "k"}
			for _, name := range []string{n.bucket(k.Space()), n.value(k)} {
				if seen[name] {
					t.Errorf("%s has two meanings", name)
				}
				seen[name] = true
			}
			if s, ok := spaceOf(member(k.Space())); !ok || s != k.Space() {
				t.Errorf("%v came back as %v", k.Space(), s)
			}
		}
	}
}
