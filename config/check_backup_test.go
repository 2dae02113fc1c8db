package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/sagestore/sagestore/config"
)

// written writes a configuration and answers what is wrong with it.
func written(t *testing.T, dir, text string) error {
	t.Helper()
	file := filepath.Join(dir, "sagestore.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, config.Drivers(drivers()))
	if err == nil {
		_, err = cfg.Resolve(config.Drivers(drivers()))
	}
	return err
}

func TestABackupThatCouldNotRunIsReportedWhereItIsWritten(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	good := id.Recipient().String()
	for _, c := range []struct{ why, line, want string }{
		{"February has 29 days at most", `cron: "0 0 30 2 *"`, "backup.cron: \"0 0 30 2 *\" never comes"},
		{"neither month has a 31st", `cron: "0 0 31 4,jun *"`, "backup.cron: "},
		{"no month of a step has it", `cron: "0 0 31 2/9 *"`, "backup.cron: "},
		{"each weekday, in other words", `cron: "0 0 30 2 */1"`, "backup.cron: "},
		{"February may have 29 days", `cron: "0 0 29 2 *"`, ""},
		{"an old key that is too short", "signing_keys_old: [0123456789abcdef, short]\n  signing_key: 0123456789abcdef", "backup.signing_keys_old: number 2 has 5 bytes (not shown)"},
		{"old keys, and none that signs", "signing_keys_old: [0123456789abcdef]", "backup.signing_keys_old: has no meaning without backup.signing_key"},
		{"old keys beside a new one", "signing_keys_old: [fedcba9876543210]\n  signing_key: 0123456789abcdef", ""},
		{"a weekday makes up for the day", `cron: "0 0 30 2 mon"`, ""},
		{"one of two months has it", `cron: "0 0 31 feb,mar *"`, ""},
		{"one of two days is there", `cron: "0 0 31,5 2 *"`, ""},
		{"a range of days begins early enough", `cron: "0 0 28-31 2 *"`, ""},
		{"a key that is whole", "recipients: [" + good + "]", ""},
		{"a key with a letter too few", "recipients: [" + good[:len(good)-1] + "]", "backup.recipients: "},
		{"a key that is not one", "recipients: [age1nothing]", "backup.recipients: "},
		{"a key of ssh", "recipients: [ssh-ed25519 AAAA]", "backup.recipients: holds a public key of ssh"},
		{"a secret key that is whole", "identities: [" + id.String() + "]", ""},
		{"a secret key with a letter too few", "identities: [" + id.String()[:len(id.String())-1] + "]", "backup.identities: "},
		{"nothing is kept in the memory of a process", "dest: mem://backups", "backup.dest: mem:// keeps nothing"},
		{"nor in capitals", "dest: MEM://", "backup.dest: mem:// keeps nothing"},
	} {
		err := written(t, t.TempDir(), "data_dir: store\nbackup:\n  "+c.line+"\n")
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %s: %v", c.why, c.line, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "sagestore.yaml:3: "+c.want) {
			t.Errorf("%s: %s: got %v, want %q", c.why, c.line, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), id.String()[:30]) {
			t.Errorf("%s: the error shows the secret", c.why)
		}
	}
}

func TestBackupsAreNotKeptInsideATier(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	for _, d := range []string{filepath.Join(store, "data"), filepath.Join(dir, "elsewhere")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": "store/data", "out": "elsewhere"} {
		if err := os.Symlink(filepath.Join(dir, to), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ why, text, what string }{
		{"the files of the file tier", "backup: {dest: store/data}", "file.base_path"},
		{"below them, where nothing is yet", "backup: {dest: store/data/a/b}", "file.base_path"},
		{"below them, where copies are made", "backup: {dest: store/data/.snapshot/x}", "file.base_path"},
		{"through a link", "backup: {dest: link/backups}", "file.base_path"},
		{"by a URL", "backup: {dest: 'file://" + store + "/data/x'}", "file.base_path"},
		{"where files were put elsewhere", "file: {base_path: out}\nbackup: {dest: elsewhere/x}", "file.base_path"},
		{"the cache", "cache: {path: c}\nbackup: {dest: c/x}", "cache.path"},
		{"the state of jobs", "backup: {dest: store/jobs}", "jobs"},
		{"though no backup is made by itself", "backup: {enabled: false, dest: store/data}", "file.base_path"},
		{"the default place in files", "file: {base_path: store}\nbackup: {}", "file.base_path"},
		{"beside them", "backup: {dest: store/data-backups}", ""},
		{"the default place", "backup: {}", ""},
		{"a directory outside through a link", "backup: {dest: out}", ""},
		{"a bucket", "backup: {dest: s3://store/data}", ""},
		{"a store without backups needs no place for them", "file: {base_path: store}", ""},
	} {
		err := written(t, dir, "data_dir: store\n"+c.text+"\n")
		switch {
		case c.what == "" && err != nil:
			t.Errorf("%s: %v", c.why, err)
		case c.what != "" && (err == nil || !strings.Contains(err.Error(), "backup.dest: ") || !strings.Contains(err.Error(), c.what)):
			t.Errorf("%s: got %v, want one about %s", c.why, err, c.what)
		}
	}
}
