// Package option: arguments of a client that is never made.
package option

func WithHTTPClient(any) any  { return nil }
func WithCredentials(any) any { return nil }
