package agent

import (
	"sync"

	"github.com/sagestore/sagestore/config"
)

// plan is what the configuration says about checkpoints.
type plan struct {
	mu sync.Mutex
	p  config.CheckpointPlan
}

func (p *plan) get() config.CheckpointPlan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.p
}

func (p *plan) set(to config.CheckpointPlan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.p = to
}
