//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sagestore/sagestore/internal/torture/check"
)

// agentRound lets workers die amid their work with agents, recovers, and checks.
func (h *history) agentRound(ctx context.Context) ([]check.Fault, error) {
	h.n++
	h.done.Faults["kill"]++
	var paths []string
	for gen := range 1 + h.rng.IntN(3) {
		begun, err := h.generation(ctx, gen, []string{"kill"})
		if paths = append(paths, begun...); err != nil {
			return nil, err
		}
	}
	lines, _, err := h.read(paths)
	if err != nil {
		return nil, err
	}
	s := spec{Store: h.store, Answers: filepath.Join(h.dir, "answers")}
	cmd := h.child(ctx, "recover", s)
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("recovery: %w: %s", err, said(cmd))
	}
	var says check.AgentStats
	b, err := os.ReadFile(s.Answers)
	if err == nil {
		err = json.Unmarshal(b, &says)
	}
	if err != nil {
		return nil, err
	}
	faults, err := h.look(ctx)
	if err != nil {
		return nil, err
	}
	counted, wrong := h.now.Agents.Check()
	faults = append(faults, wrong...)
	if says != counted {
		faults = append(faults, check.Fault{Kind: "count", Text: fmt.Sprintf("the store counts %+v, and there are %+v", says, counted)})
	}
	for id, n := range h.now.Agents.Steps() {
		if n[0] != n[1] && id[0] == 'a' {
			faults = append(faults, check.Fault{Kind: "step", Text: fmt.Sprintf("agent %s is at iteration %d and has done %d steps", id, n[0], n[1])})
		}
	}
	r := check.AgentRound{Logs: lines, Before: h.told, After: h.now.Agents.Told()}
	if faults = append(faults, r.Check()...); len(faults) > 0 {
		return faults, nil
	}
	h.told = r.After
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
