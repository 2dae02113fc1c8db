package backup

import "testing"

func TestAVerificationTellsHowFarItIs(t *testing.T) {
	r := mustRepo(t, newBucket(), options(t))
	m := mustCreate(t, r, newStore(t, t.TempDir()))
	for _, rehearse := range []bool{false, true} {
		last := map[string]Progress{}
		if _, err := r.Telling(func(p Progress) { last[p.Step+" "+p.Part] = p }).Verify(t.Context(), m.ID, rehearse); err != nil {
			t.Fatal(err)
		}
		for _, p := range m.Parts {
			if got := last["verify "+p.Name]; got.Done != p.Plain.Bytes || got.Total != p.Plain.Bytes {
				t.Errorf("rehearsed %v: part %s ended at %+v, want %d bytes", rehearse, p.Name, got, p.Plain.Bytes)
			}
		}
	}
}
