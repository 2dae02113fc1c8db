package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
)

// blocks answers the code blocks of a language on the page of operations.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "OPERATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(string(b), -1) {
		all = append(all, m[1])
	}
	if len(all) == 0 {
		t.Fatalf("there is no block of %s", language)
	}
	return all
}

func TestTheConfigurationsOnThePageOfOperationsLoad(t *testing.T) {
	dir := t.TempDir()
	keys := map[string]string{
		"age.key": "AGE-SECRET-KEY-1XTEFK45AZWAEXF8QZEY8WX3Y09J60S3RRR523EZE0R27Y0E095HS7APPSH", "backup.sign": strings.Repeat("ab", 16),
	}
	for name, text := range keys {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	loaded := 0
	for _, text := range blocks(t, "yaml") {
		if strings.HasPrefix(text, "apiVersion:") {
			var job struct {
				Kind string
				Spec struct {
					Schedule    string
					JobTemplate struct {
						Spec struct {
							Template struct {
								Spec struct {
									Containers []struct{ Command []string }
								}
							}
						}
					} `yaml:"jobTemplate"`
				}
			}
			if err := yaml.Unmarshal([]byte(text), &job); err != nil || job.Kind != "CronJob" {
				t.Errorf("%v\n%s", err, text)
			}
			if _, err := backup.ParseSchedule(backup.Timing{Cron: job.Spec.Schedule}); err != nil {
				t.Error(err)
			}
			containers := job.Spec.JobTemplate.Spec.Template.Spec.Containers
			if len(containers) != 1 || len(containers[0].Command) < 3 || containers[0].Command[0] != "sagestore" {
				t.Errorf("it runs no sagestore:\n%s", text)
				continue
			}
			accepts(t, containers[0].Command[1:])
			continue
		}
		c, err := config.Parse([]byte(strings.ReplaceAll(text, "/etc/sage", dir)))
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		if !c.Backup.Enabled {
			t.Errorf("it enables no backup:\n%s", text)
		}
		loaded++
	}
	if loaded < 4 {
		t.Errorf("only %d configurations were found", loaded)
	}
}

func TestTheCronLineOnThePageOfOperationsIsOne(t *testing.T) {
	for _, text := range blocks(t, "crontab") {
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if name, _, assigned := strings.Cut(line, "="); assigned && !strings.Contains(name, " ") {
				continue
			}
			fields := strings.Fields(line)
			if len(fields) < 7 || fields[5] != "app" {
				t.Fatalf("%q is no line with a user and a command", line)
			}
			if _, err := backup.ParseSchedule(backup.Timing{Cron: strings.Join(fields[:5], " ")}); err != nil {
				t.Error(err)
			}
			if strings.Contains(line, "%") {
				t.Errorf("cron makes a line feed of the %% in %q", line)
			}
			runs(t, line)
		}
	}
}

// runs finds the command of ours in a line, and that there is such a one.
func runs(t *testing.T, line string) {
	t.Helper()
	_, command, ok := strings.Cut(line, "/usr/local/bin/sagestore ")
	if !ok {
		t.Fatalf("%q runs no sagestore", line)
	}
	command, _, _ = strings.Cut(command, " >")
	accepts(t, strings.Fields(command))
}

// accepts finds that there is such a command, and that it takes these flags.
func accepts(t *testing.T, command []string) {
	t.Helper()
	c, rest, err := new(app).root().Find(command)
	if err != nil || c.HasSubCommands() {
		t.Errorf("there is no command %q: %v", command, err)
		return
	}
	if err := c.ParseFlags(rest); err != nil || c.Flags().NArg() > 0 {
		t.Errorf("%q: %v, and %q is too much", command, err, c.Flags().Args())
	}
}

// unitKeys are what the units on the page may say, by section.
func unitKeys() map[string][]string {
	return map[string][]string{
		"Unit":    {"Description", "After", "Wants"},
		"Service": {"Type", "User", "Environment", "ExecStart", "Nice", "IOSchedulingClass", "PrivateTmp", "NoNewPrivileges"},
		"Timer":   {"OnCalendar", "RandomizedDelaySec", "Persistent"},
		"Install": {"WantedBy"},
	}
}

func TestTheUnitsOnThePageOfOperationsAreValid(t *testing.T) {
	dir := t.TempDir()
	names := []string{"sagestore-backup.service", "sagestore-backup.timer"}
	units := blocks(t, "ini")
	if len(units) != len(names) {
		t.Fatalf("%d units", len(units))
	}
	for i, unit := range units {
		section := ""
		for line := range strings.Lines(unit) {
			line = strings.TrimSpace(line)
			if name, ok := strings.CutPrefix(line, "["); ok {
				section = strings.TrimSuffix(name, "]")
				continue
			}
			key, value, ok := strings.Cut(line, "=")
			if line != "" && (!ok || value == "" || !slices.Contains(unitKeys()[section], key)) {
				t.Errorf("%s: [%s] does not take %q", names[i], section, line)
			}
			if key == "ExecStart" {
				runs(t, line)
			}
		}
		// The verifier wants the program and the user to be there.
		here := strings.NewReplacer("/usr/local/bin/sagestore", "/bin/true", "User=app", "User=root").Replace(unit)
		if err := os.WriteFile(filepath.Join(dir, names[i]), []byte(here), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	verifier, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return // the check above is all there is then
	}
	if out, err := exec.CommandContext(t.Context(), verifier, "verify", "--man=no", filepath.Join(dir, names[1])).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// inText answers the commands that the page names in its text, which no block runs.
func inText(t *testing.T, name string) (all []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "OPERATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(string(b), "")
	for _, m := range regexp.MustCompile("`("+name+" [^`]+)`").FindAllStringSubmatch(text, -1) {
		all = append(all, strings.Join(strings.Fields(m[1]), " "))
	}
	if len(all) == 0 {
		t.Errorf("the page names no %s", name)
	}
	return all
}

func TestTheCommandsInTheTextOfOperationsNameWhatIsThere(t *testing.T) {
	for _, command := range inText(t, "sagestore") {
		command = strings.NewReplacer("NAME", "session.preferences", " ID ", " ", " latest", "").Replace(command)
		if fields := strings.Fields(command); len(fields) > 2 || fields[1] != "backup" { // a group is named, not run
			accepts(t, fields[1:])
		}
	}
	for _, name := range []string{"systemctl", "journalctl"} {
		for _, command := range inText(t, name) {
			fields := strings.Fields(command)
			if unit := fields[len(fields)-1]; unit != "sagestore-backup.service" && unit != "sagestore-backup.timer" {
				t.Errorf("%q names no unit of the page", command)
			}
			for _, flag := range fields[1 : len(fields)-1] {
				if !slices.Contains([]string{"enable", "--now", "--unit"}, flag) {
					t.Errorf("%q: %s is not known here", command, flag)
				}
			}
		}
	}
	for _, command := range inText(t, "rsync") {
		copies(t, command)
	}
	module, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range inText(t, "go install") {
		name, version, _ := strings.Cut(strings.TrimPrefix(command, "go install filippo.io/age/cmd/age-keygen@"), " ")
		if version != "" || !strings.Contains(string(module), "filippo.io/age "+name+"\n") {
			t.Errorf("%q is not the version of the module", command)
		}
	}
}

// copies runs a command that copies ./elsewhere to ./copied, where its program is there.
func copies(t *testing.T, command string) {
	t.Helper()
	if _, err := exec.LookPath(strings.Fields(command)[0]); err != nil {
		return
	}
	dir := t.TempDir()
	object := filepath.Join("id", "manifest.json")
	for _, name := range []string{object, filepath.Join("id", ".tmp-half")} {
		path := filepath.Join(dir, "elsewhere", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("{}"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.CommandContext(t.Context(), "sh", "-c", command)
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	got, err := filepath.Glob(filepath.Join(dir, "copied", "id", "*"))
	if err != nil || len(got) != 1 || filepath.Base(got[0]) != "manifest.json" {
		t.Errorf("%s: the copy has %v, %v", command, got, err)
	}
	hidden, err := filepath.Glob(filepath.Join(dir, "copied", "id", ".tmp-*"))
	if err != nil || len(hidden) != 0 {
		t.Errorf("%s: the copy has %v, %v", command, hidden, err)
	}
}

func TestWhatIsDoneIsShownInOneLine(t *testing.T) {
	const second = 1_000_000_000
	for _, c := range []struct {
		why  string
		p    backup.Progress
		want string
	}{
		{"a step whose size is known", backup.Progress{Step: "copy", Part: "database", Done: 10 << 20, Total: 40 << 20}, "copy database: 10.0 MiB of 40.0 MiB, 25%, 5.0 MiB/s, 6.0s left"},
		{"one whose size is not known", backup.Progress{Step: "copy", Part: "file", Done: 10 << 20, Total: -1}, "copy file: 10.0 MiB, 5.0 MiB/s"},
		{"the beginning", backup.Progress{Step: "verify", Part: "file", Total: 5}, "verify file: 0 B of 5 B, 0%"},
		{"the end", backup.Progress{Step: "restore", Part: "file", Done: 4, Total: 4}, "restore file: 4 B of 4 B, 100%, 2 B/s"},
	} {
		if got := lineOf(c.p, 2*second); got != c.want {
			t.Errorf("%s: %q, want %q", c.why, got, c.want)
		}
	}
}
