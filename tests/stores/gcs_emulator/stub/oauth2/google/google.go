// Package google: the type of credentials that are never used.
package google

type Credentials struct{}
