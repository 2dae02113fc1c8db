package agent

import (
	"fmt"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

// Event is what has just happened in the work of an agent.
type Event string

// The events.
const (
	ToolDone        Event = "tool_call_complete"
	ModelDone       Event = "model_response"
	Iteration       Event = "iteration"
	BeforeOperation Event = "before_operation"
)

// Step is what a strategy decides by.
type Step struct {
	Iteration int // from 1; nothing has happened at 0
	Event     Event
	SinceLast time.Duration // since the last checkpoint, or since the run began
}

// Strategy tells whether a step is worth a checkpoint. At iteration 0, and a second
// time in one iteration, there is none whatever it says.
type Strategy func(Step) bool

// AfterToolCall makes a checkpoint when a tool call is complete.
func AfterToolCall() Strategy { return func(s Step) bool { return s.Event == ToolDone } }

// AfterModelResponse makes one when the model has answered.
func AfterModelResponse() Strategy { return func(s Step) bool { return s.Event == ModelDone } }

// BeforeOperations makes one before an operation.
func BeforeOperations() Strategy { return func(s Step) bool { return s.Event == BeforeOperation } }

// Never makes none.
func Never() Strategy { return func(Step) bool { return false } }

// EveryN makes one at each iteration that n divides, whatever the event; n is 1 or
// more.
func EveryN(n int) (Strategy, error) {
	if n < 1 {
		return nil, &tiers.Error{Op: "strategy", Err: fmt.Errorf("%w: every %d iterations; 1 is the least", tiers.ErrType, n)}
	}
	return func(s Step) bool { return s.Iteration%n == 0 }, nil
}

// Interval makes one when the last is d old.
func Interval(d time.Duration) Strategy { return func(s Step) bool { return s.SinceLast >= d } }

// AnyOf makes one when one of the strategies does.
func AnyOf(of ...Strategy) Strategy {
	return func(s Step) bool {
		for _, st := range of {
			if st(s) {
				return true
			}
		}
		return false
	}
}

// strategyOf answers the strategy of a configuration.
func strategyOf(p config.CheckpointPlan) (Strategy, error) {
	switch p.Strategy {
	case "after_tool_call", "":
		return AfterToolCall(), nil
	case "after_model_response":
		return AfterModelResponse(), nil
	case "never":
		return Never(), nil
	case "every":
		return EveryN(p.Every)
	}
	return nil, fmt.Errorf("%w: strategy %q; there are after_tool_call, after_model_response, every and never", tiers.ErrType, p.Strategy)
}

// Strategy answers the strategy of the configuration.
func (s *Store) Strategy() Strategy {
	st, err := strategyOf(s.core.plan.get())
	if err != nil {
		return Never() // what the configuration says was checked
	}
	return st
}

// Decider asks a strategy about the steps of one agent and keeps the rules that
// hold for every strategy. It is not safe for concurrent use.
type Decider struct {
	strategy Strategy
	last     int // the iteration of the last checkpoint
}

// NewDecider answers a decider that has asked for no checkpoint yet.
func NewDecider(s Strategy) *Decider { return &Decider{strategy: s} }

// Wants tells whether there should be a checkpoint now. It says so at most once
// for an iteration.
func (d *Decider) Wants(s Step) bool {
	if s.Iteration < 1 || s.Iteration == d.last || !d.strategy(s) {
		return false
	}
	d.last = s.Iteration
	return true
}
