package backup_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/backup"
)

func TestRunsByHandAreRememberedUntilOneSucceeds(t *testing.T) {
	noon := at("2026-03-01 12:00")
	var st backup.State
	st.BeginByHand(noon)
	st.FailedByHand(noon.Add(time.Minute), errors.New(strings.Repeat("é", 600)))
	if h := st.Hand; h.Failures != 1 || !h.Began.IsZero() || !h.Failed.Equal(noon.Add(time.Minute)) || len(h.Cause) > 510 || strings.ContainsRune(h.Cause, '\ufffd') {
		t.Errorf("a failure: %+v", h)
	}
	st.BeginByHand(noon.Add(time.Hour))
	st.EndByHand(noon.Add(2 * time.Hour))
	if h := st.Hand; h.Failures != 1 || !h.Began.IsZero() {
		t.Errorf("an interrupted run is none: %+v", h)
	}
	st.BeginByHand(noon.Add(3 * time.Hour))
	st.BeginByHand(noon.Add(4 * time.Hour))
	if h := st.Hand; h.Failures != 2 || !h.Failed.Equal(noon.Add(3*time.Hour)) || !strings.Contains(h.Cause, "process ended") {
		t.Errorf("one whose process died: %+v", h)
	}
	st.Good(time.Time{}, noon.Add(5*time.Hour))
	if st.Hand != (backup.HandState{}) {
		t.Errorf("after a good one: %+v", st.Hand)
	}
}

func TestALiveRunnerIsSeenAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{}
		r := start(t, p.config(t, nil))
		for range 100 {
			time.Sleep(17 * time.Minute)
			st, err := p.Load(context.Background())
			if age := p.Now().Sub(st.Watched); err != nil || age < 0 || age > backup.WatchedFor {
				t.Fatalf("at %v it was seen at %v: %v", p.Now(), st.Watched, err)
			}
		}
		p.set(-48 * time.Hour) // a clock that is set back does not hide it
		time.Sleep(17 * time.Minute)
		if st, _ := p.Load(context.Background()); p.Now().Sub(st.Watched).Abs() > backup.WatchedFor {
			t.Errorf("at %v it was seen at %v", p.Now(), st.Watched)
		}
		stop(t, r)
	})
}

func TestARunnerThatWaitsSaysForWhomOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{}
		unlock, _, _ := p.lock(context.Background())
		c := p.config(t, nil)
		c.Owner = func() string { return "process 17 on there since then" }
		r := start(t, c)
		time.Sleep(10 * time.Hour)
		unlock()
		stop(t, r)
		if n := strings.Count(p.log.String(), "process 17 on there since then"); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, &p.log)
		}
	})
}
