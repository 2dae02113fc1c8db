// Package transfer brings agents, conversations, checkpoints, fields and sessions
// into a store from files of other programs, and writes them for others.
//
//	sum, err := transfer.Import(ctx, []string{"logs"}, transfer.Options{Agents: agents, Sessions: sessions})
//
// What a file is shows in its content, see [Format]. Reading takes memory for one
// message, event or checkpoint at a time, and for a batch of them, whatever the
// size of the file. What is damaged is a [Fault] with file and line, and the rest
// comes in. Ids that a format does not have are derived from what it says, so that
// a second import adds nothing.
package transfer
