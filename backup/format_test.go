package backup

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestABackupOfEachFormatIsReadAndRestored: the files were written by the first
// version that had the format.
func TestABackupOfEachFormatIsReadAndRestored(t *testing.T) {
	for _, format := range []string{"format-1"} {
		backups := t.TempDir()
		if err := os.CopyFS(backups, os.DirFS(filepath.Join("testdata", format))); err != nil {
			t.Fatal(err)
		}
		o := options(t)
		o.Key = []byte("a key of the backups")
		r := mustRepo(t, Dir(backups), o)
		e, err := r.Latest(t.Context())
		if err != nil || !e.Authentic || e.Manifest.Created != night {
			t.Fatalf("%s: %+v, %v", format, e, err)
		}
		if _, err := r.Verify(t.Context(), e.ID, true); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "to")
		if _, err := r.Restore(t.Context(), e.ID, RestoreOptions{To: to}); err != nil {
			t.Fatal(err)
		}
		got := state(t, to)
		if len(got) != 43 {
			t.Errorf("%s: %d records and files, want 43", format, len(got))
		}
		st, err := os.Stat(filepath.Join(to, "data", "config", "settings.json"))
		if err != nil || st.ModTime().Before(night.AddDate(-1, 0, 0)) || st.ModTime().Nanosecond()%int(time.Second) == 0 {
			t.Errorf("%s: the time of a file is lost: %v, %v", format, st, err)
		}
	}
}
