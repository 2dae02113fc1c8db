package redis

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// replyError is an error that the server answered.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError marks it as the client library marks its own.
func (e replyError) RedisError() {}

// errProtocol is for an answer that no server gives. The connection can't be used
// any more.
var errProtocol = errors.New("redis answered something that is not its protocol")

// readReply reads the answer to one command into the call: its text, texts or
// number, or its fault when the server refused it. An absent value is an empty
// text. The error is about the connection.
func readReply(r *bufio.Reader, c *call) error {
	c.fault, c.text, c.texts, c.n = nil, nil, nil, 0
	kind, n, line, err := readLine(r)
	switch {
	case err != nil:
		return err
	case kind == '-':
		c.fault = replyError(line)
	case kind == '+':
		c.text = bytes.Clone(line)
	case kind == ':':
		c.n = n
	case kind == '$':
		c.text, err = readText(r, n)
	case kind == '*':
		c.texts, err = readTexts(r, n)
	default:
		err = errProtocol
	}
	return err
}

// readTexts reads n texts, nil for absent ones. A server never answers more than
// a call asked for; the bound is for what is not one.
func readTexts(r *bufio.Reader, n int64) ([][]byte, error) {
	if n < 0 {
		return nil, nil
	}
	out := make([][]byte, 0, min(n, 4096))
	for range n {
		kind, size, _, err := readLine(r)
		if err != nil {
			return nil, err
		}
		if kind != '$' {
			return nil, fmt.Errorf("%w: %q in a list", errProtocol, kind)
		}
		text, err := readText(r, size)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// atOnce is how much is allocated for a text before any of it has come.
const atOnce = 1 << 20

// readText reads n bytes and the end of their line; nil when n is negative.
func readText(r *bufio.Reader, n int64) ([]byte, error) {
	if n < 0 {
		return nil, nil
	}
	b := make([]byte, min(n, atOnce))
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, cutOff(err)
	}
	for int64(len(b)) < n {
		have := len(b)
		b = append(b, make([]byte, min(n-int64(have), int64(have)))...)
		if _, err := io.ReadFull(r, b[have:]); err != nil {
			return nil, cutOff(err)
		}
	}
	end, err := r.Peek(2)
	if err != nil {
		return nil, cutOff(err)
	}
	if end[0] != '\r' || end[1] != '\n' {
		return nil, errProtocol
	}
	_, err = r.Discard(2)
	return b, err
}

// cutOff is the error of a reply that ended too early.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// largestText is the most bytes that Redis holds in one value.
const largestText = 512 << 20

// readLine reads a line, which ends before the next read: what kind of answer it
// is, and the number in it, which is bounded.
func readLine(r *bufio.Reader) (kind byte, n int64, line []byte, err error) {
	line, err = r.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = errProtocol
		}
		return 0, 0, nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return 0, 0, nil, errProtocol
	}
	kind, line = line[0], line[1:len(line)-2]
	if kind == '$' || kind == '*' || kind == ':' {
		n, err = strconv.ParseInt(string(line), 10, 64)
		if err != nil || kind != ':' && (n < -1 || n > largestText) {
			return 0, 0, nil, errProtocol
		}
	}
	return kind, n, line, nil
}
