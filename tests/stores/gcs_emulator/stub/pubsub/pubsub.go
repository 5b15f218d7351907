// Package pubsub: the emulator can publish events; here it does not.
package pubsub

import (
	"context"
	"errors"
)

type (
	Client  struct{}
	Message struct {
		Data       []byte
		Attributes map[string]string
	}
	Publisher     struct{}
	PublishResult struct{}
)

var errNone = errors.New("this build of the emulator publishes nothing")

func NewClient(context.Context, string) (*Client, error)            { return nil, errNone }
func (*Client) Publisher(string) *Publisher                         { return nil }
func (*Client) Close() error                                        { return nil }
func (*Publisher) Publish(context.Context, *Message) *PublishResult { return nil }
func (*Publisher) Stop()                                            {}
func (*PublishResult) Get(context.Context) (string, error)          { return "", errNone }
