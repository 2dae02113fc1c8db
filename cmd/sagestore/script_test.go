package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/internal/routetest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/all"
)

// leakChecked runs the tests and then looks for goroutines that are left.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	if err := routetest.StartServer(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := l.m.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"sagestore": command, "age-keygen": keygen})
}

// command is main with the drivers of the tests.
func command() { os.Exit(run(registry())) }

func registry() tiers.Drivers { return routetest.Drivers(all.Tiers()) }

// keygen is what pages use of age-keygen: -o FILE makes a key, -y FILE shows its
// public one.
func keygen() {
	if err := keygenOf(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func keygenOf(args []string) error {
	if len(args) != 2 {
		return errors.New("age-keygen -o FILE or -y FILE")
	}
	if args[0] == "-o" {
		id, err := age.GenerateX25519Identity()
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "Public key: %s\n", id.Recipient())
		return os.WriteFile(args[1], fmt.Appendf(nil, "# public key: %s\n%s\n", id.Recipient(), id), 0o600)
	}
	file, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // opened for reading
	ids, err := age.ParseIdentities(file)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if own, ok := id.(*age.X25519Identity); ok {
			fmt.Println(own.Recipient())
		}
	}
	return nil
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			tb, ok := e.T().(testing.TB)
			if !ok {
				return errors.New("the test has no testing.TB")
			}
			e.Values[testKey{}] = tb
			e.Values[redisKey{}] = new([]*redistest.Server)
			e.Values[backingKey{}] = new(backing)
			page, err := filepath.Abs(filepath.Join("..", "..", "docs", "CLI.md"))
			e.Setenv("PAGE", page)
			e.Setenv("OPERATIONS", filepath.Join(filepath.Dir(page), "OPERATIONS.md"))
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("SAGESTORE_CONFIG", "")
			routetest.Pass(e.Setenv)
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each command takes a second longer with -race
			return errors.Join(err, os.Mkdir(filepath.Join(e.WorkDir, "home"), 0o700))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"rc":       scriptCode,
			"hold":     scriptHold,
			"mode":     scriptMode,
			"program":  scriptProgram,
			"page":     scriptPage,
			"examples": scriptExamples,
			"redis":    scriptRedis,
			"postgres": scriptPostgres,
			"sqlite":   scriptSQLite,
			"readonly": scriptReadOnly,
			"hostile":  scriptHostile,
			"await":    scriptAwait,
			"made":     scriptMade,
			"backing":  scriptBacking,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

type testKey struct{}

func tbOf(ts *testscript.TestScript) testing.TB {
	tb, ok := ts.Value(testKey{}).(testing.TB)
	if !ok {
		ts.Fatalf("the script has no test")
	}
	return tb
}

// codeOf runs a command and answers its exit code.
func codeOf(ts *testscript.TestScript, command string, args ...string) int {
	err := ts.Exec(command, args...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

// scriptCode is `rc CODE COMMAND...`: the command ends with exactly that code.
func scriptCode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := codeOf(ts, args[1], args[2:]...); got != want {
		ts.Fatalf("it ended with %d, want %d", got, want)
	}
}

// scriptHold is `hold DIR`: this process keeps the store of a data directory open
// until the end of the script, with one preference that it saved.
func scriptHold(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	m, err := manager.OpenDir(ctx, ts.MkAbs(args[0]), registry())
	ts.Check(err)
	ts.Defer(func() {
		if err := m.Close(ctx); err != nil {
			tbOf(ts).Error(err)
		}
	})
	ts.Check(m.Save(ctx, "session.preferences", "held", "by another process"))
}

// scriptProgram is `program DIR`: a program whose preferences have schema 2 saves
// the key "typed" and ends.
func scriptProgram(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	m, err := manager.OpenDir(ctx, ts.MkAbs(args[0]), registry())
	ts.Check(err)
	type preferences struct{ Theme string }
	prefs := manager.For[preferences](m, "session.preferences",
		manager.Upgrade(1, func(theme string) (preferences, error) { return preferences{theme}, nil }))
	ts.Check(errors.Join(prefs.Save(ctx, "typed", preferences{"dark"}), m.Close(ctx)))
}

// scriptMode is `mode OCTAL PATH...`.
func scriptMode(ts *testscript.TestScript, _ bool, args []string) {
	for _, path := range args[1:] {
		st, err := os.Stat(ts.MkAbs(path))
		ts.Check(err)
		if got := fmt.Sprintf("%04o", st.Mode().Perm()); got != args[0] {
			ts.Fatalf("%s has mode %s, want %s", path, got, args[0])
		}
	}
}

type redisKey struct{}

// scriptPostgres is `postgres NAME`: POSTGRES_URL names a server that all scripts share, and
// POSTGRES_SCHEMA a schema of the script's own.
func scriptPostgres(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: postgres NAME")
	}
	ts.Setenv("POSTGRES_URL", pgtest.Shared(tbOf(ts)).URL("postgres"))
	ts.Setenv("POSTGRES_SCHEMA", args[0])
}

// scriptRedis is `redis start [ARG...]`, which sets REDIS_URL and REDIS_ADDR,
// `redis kill`, `redis restart`, `redis freeze`, `redis thaw`, or `redis absent` for a port nobody listens on.
func scriptRedis(ts *testscript.TestScript, _ bool, args []string) {
	servers, _ := ts.Value(redisKey{}).(*[]*redistest.Server)
	switch args[0] {
	case "absent":
		addr := "127.0.0.1:" + strconv.Itoa(redistest.FreePort(tbOf(ts)))
		ts.Setenv("REDIS_URL", "redis://"+addr)
		ts.Setenv("REDIS_ADDR", addr)
	case "start":
		s := redistest.Start(tbOf(ts), args[1:]...)
		ts.Setenv("REDIS_URL", s.URL())
		ts.Setenv("REDIS_ADDR", s.Addr())
		*servers = append(*servers, s)
	case "kill":
		(*servers)[len(*servers)-1].Kill()
	case "restart":
		(*servers)[len(*servers)-1].Restart()
	case "freeze":
		(*servers)[len(*servers)-1].Freeze()
	case "thaw":
		(*servers)[len(*servers)-1].Thaw()
	default:
		ts.Fatalf("redis %s?", args[0])
	}
}

// scriptSQLite is `sqlite FILE STATEMENT`.
func scriptSQLite(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.ExecContext(context.Background(), args[1])
	ts.Check(errors.Join(err, db.Close()))
}

// scriptReadOnly is `readonly prepare DIR`, which mounts a file system of its own
// there, and `readonly seal DIR`, after which nobody can write to it, root
// included.
func scriptReadOnly(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[1])
	var err error
	switch args[0] {
	case "prepare":
		ts.Check(os.Mkdir(dir, 0o700))
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m,mode=700")
		if err == nil {
			ts.Defer(func() {
				if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
					tbOf(ts).Error(err)
				}
			})
		}
	case "seal":
		err = unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
	default:
		ts.Fatalf("readonly %s?", args[0])
	}
	if err != nil && os.Getenv("CI") != "true" {
		tbOf(ts).Skip("can't mount:", err)
	}
	ts.Check(err)
}

// scriptHostile is `hostile FILE TEXT [TIMES TEXT TEXT]`: the file gets the texts,
// the second one repeated, with Go's escapes.
func scriptHostile(ts *testscript.TestScript, _ bool, args []string) {
	plain := func(text string) string {
		b, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
		ts.Check(err)
		return b
	}
	text := plain(args[1])
	if len(args) == 5 {
		times, err := strconv.Atoi(args[2])
		ts.Check(err)
		text += strings.Repeat(plain(args[3]), times) + plain(args[4])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// scriptAwait is `await COMMAND...`: the command is run until it ends with 0.
func scriptAwait(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(30 * time.Second); codeOf(ts, args[0], args[1:]...) != 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("%v never ends with 0", args)
		}
	}
}

type backingKey struct{}

// scriptBacking is `backing DIR begin`: this process begins a backup of the store of a
// data directory, which does not go on before `backing DIR end`.
func scriptBacking(ts *testscript.TestScript, _ bool, args []string) {
	running, _ := ts.Value(backingKey{}).(*backing)
	if args[1] == "end" {
		ts.Check(running.end())
		return
	}
	ctx := context.Background()
	m, err := manager.OpenDir(ctx, ts.MkAbs(args[0]), registry(), manager.WithoutJobs())
	ts.Check(err)
	b, err := m.Backups(ctx)
	ts.Check(err)
	began, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var first sync.Once
	go func() {
		_, err := b.Run(ctx, m, manager.BackupProgress(func(backup.Progress) {
			first.Do(func() {
				close(began)
				<-free
			})
		}))
		done <- errors.Join(err, m.Close(ctx))
	}()
	running.end = sync.OnceValue(func() error {
		close(free)
		return <-done
	})
	ts.Defer(func() {
		if err := running.end(); err != nil {
			tbOf(ts).Error(err)
		}
	})
	select {
	case <-began:
	case err := <-done:
		done <- err
		ts.Fatalf("the backup ended: %v", err)
	}
}

// backing is a backup that this process makes.
type backing struct{ end func() error }

// scriptMade is `made DIR TIME`: a backup is made of the store of a data directory by
// a clock that shows that time.
func scriptMade(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	at, err := time.Parse(time.RFC3339, args[1])
	ts.Check(err)
	m, err := manager.OpenDir(ctx, ts.MkAbs(args[0]), registry(), manager.WithClock(sagetest.NewClock(at)))
	ts.Check(err)
	b, err := m.Backups(ctx)
	if err == nil {
		_, err = b.Run(ctx, m)
	}
	ts.Check(errors.Join(err, m.Close(ctx)))
}

// scriptExamples is `examples`: the examples of every command's help are commands
// that there are.
func scriptExamples(ts *testscript.TestScript, _ bool, _ []string) {
	ran := 0
	eachCommand(func(name string, example string) {
		if strings.HasPrefix(name, "sagestore completion") || name == "sagestore init" || name == "sagestore backup serve" {
			return // for other shells, done before, and without an end
		}
		for line := range strings.Lines(example) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "sagestore ") && !strings.HasPrefix(line, "echo ") {
				continue
			}
			ran++
			if code := codeOf(ts, "sh", "-c", line); code == exitUsage || code > exitUnavailable {
				ts.Fatalf("%s: the example %q ends with %d", name, line, code)
			}
		}
	})
	if ran < 20 {
		ts.Fatalf("only %d examples were found", ran)
	}
}
