package agent

// auto is the work that makes checkpoints by itself.
type auto struct{}
