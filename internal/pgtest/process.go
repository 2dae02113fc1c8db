package pgtest

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account answers who has to run the server, which refuses to be root: nil for the
// user that the test runs as.
func account() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nobody else
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: false}, nil
	}
	return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

// runs tells whether a process is there and not only waits to be reaped.
func runs(pid int) bool {
	state, _, ok := statOf(pid)
	if !ok {
		return syscall.Kill(pid, 0) == nil
	}
	return state != "Z" && state != "X"
}

// statOf answers the state and the parent that follow the command's name in
// /proc/PID/stat.
func statOf(pid int) (state string, parent int, ok bool) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", 0, false
	}
	end := bytes.LastIndexByte(b, ')')
	fields := strings.Fields(string(b[end+1:]))
	if end < 0 || len(fields) < 2 {
		return "", 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err == nil
}

func childrenOf(pid int) (all []int) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	for _, dir := range dirs {
		child, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if _, parent, ok := statOf(child); ok && parent == pid {
			all = append(all, child)
		}
	}
	return all
}
