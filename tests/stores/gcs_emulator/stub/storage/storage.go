// Package storage holds the types of Google's client library that the emulator stores or names.
package storage

import (
	"context"
	"errors"
	"time"
)

type (
	ACLEntity  string
	ACLRole    string
	Projection int

	ProjectTeam struct {
		ProjectNumber string
		Team          string
	}

	ACLRule struct {
		Entity      ACLEntity
		EntityID    string
		Role        ACLRole
		Domain      string
		Email       string
		ProjectTeam *ProjectTeam
	}

	ObjectRetention struct {
		Mode        string
		RetainUntil time.Time
	}

	Client struct{}
)

const (
	AllUsers              ACLEntity  = "allUsers"
	AllAuthenticatedUsers ACLEntity  = "allAuthenticatedUsers"
	RoleOwner             ACLRole    = "OWNER"
	RoleReader            ACLRole    = "READER"
	ProjectionFull        Projection = 1
	ProjectionNoACL       Projection = 2
)

func NewClient(context.Context, ...any) (*Client, error) {
	return nil, errors.New("this build of the emulator has no client")
}
