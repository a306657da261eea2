package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/plain"
	"kcmd.dev/pkg/runtime/status"
	"kcmd.dev/pkg/runtime/why"
)

const (
	statusPath = "/statusz"
	configPath = "/configz"
	// maxAnswer bounds the size of a response: a status lists every informer.
	maxAnswer = 64 << 20
	// attempts is how often a request is sent that the process answers with 429, and longestPause the
	// longest pause between two attempts that its answer may demand.
	attempts, longestPause = 5, 10 * time.Second
)

// Status gets the status. raw is the unchanged response, in JSON.
func (c *Client) Status(ctx context.Context) (s *status.Status, raw []byte, err error) {
	raw, err = c.get(ctx, statusPath, "?format=json")
	if err != nil {
		return nil, nil, err
	}
	s = &status.Status{}
	if err := json.Unmarshal(raw, s); err != nil || s.Configuration.Hash == "" {
		return nil, nil, c.unreadable(statusPath, "a status")
	}
	return s, raw, nil
}

// Why gets what controllers did with an object and what they wait for. raw is the unchanged
// response, in JSON.
func (c *Client) Why(ctx context.Context, q why.Query) (a *why.Answer, raw []byte, err error) {
	query := url.Values{
		"type": {q.Type}, "name": {q.Name}, "namespace": {q.Namespace}, "last": {strconv.Itoa(q.Last)}, "format": {"json"},
	}
	raw, err = c.get(ctx, why.Path, "?"+query.Encode())
	if err != nil {
		return nil, nil, err
	}
	a = &why.Answer{}
	if err := json.Unmarshal(raw, a); err != nil || a.Object.Resource == "" {
		return nil, nil, c.unreadable(why.Path, "an answer")
	}
	return a, raw, nil
}

func (c *Client) unreadable(path, expected string) error {
	return fmt.Errorf("%s%s did not return %s that this program can read: is it kcmd, in a version similar to this one?",
		c.Server, path, expected)
}

// Config gets the configuration in force.
func (c *Client) Config(ctx context.Context) (*v1beta1.KubeControllerManagerConfiguration, error) {
	raw, err := c.get(ctx, configPath, "")
	if err != nil {
		return nil, err
	}
	inForce := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &inForce); err != nil || inForce[v1beta1.GroupName] == nil {
		return nil, fmt.Errorf("%s%s has no %s: is it kcmd?", c.Server, configPath, v1beta1.GroupName)
	}
	document, err := config.Load(c.Server+configPath, inForce[v1beta1.GroupName])
	if err != nil {
		return nil, fmt.Errorf(
			"the configuration in force is invalid for this program, which may have another version: %w", err)
	}
	return document.Config, nil
}

// get requests a path, and repeats that if the answer is 429 with Retry-After.
func (c *Client) get(ctx context.Context, path, query string) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		r, err := c.send(ctx, path+query)
		if err != nil {
			return nil, err
		}
		if r.code == http.StatusOK {
			return r.body, nil
		}
		seconds, err := strconv.ParseUint(r.retryAfter, 10, 16)
		pause := time.Duration(seconds) * time.Second
		if r.code != http.StatusTooManyRequests || err != nil || pause > longestPause || attempt == attempts {
			return nil, c.refused(path, r.code, reason(r.body))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, c.unreachable(context.Cause(ctx))
		}
	}
}

// response is the response to a request.
type response struct {
	code       int
	retryAfter string // the header of that name
	body       []byte
}

// send sends one request.
func (c *Client) send(ctx context.Context, query string) (response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Server+query, nil)
	if err != nil {
		return response{}, fmt.Errorf("requesting %s: %w", c.Server, err)
	}
	request.Header.Set("Accept", "application/json")
	answer, err := c.http.Do(request)
	if err != nil {
		return response{}, c.unreachable(err)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return response{}, fmt.Errorf("reading the response of %s: %w", c.Server, err)
	}
	return response{answer.StatusCode, answer.Header.Get("Retry-After"), body}, nil
}

// reason is the message of a response, which may be an API Status or plain text.
func reason(body []byte) string {
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return plain.Text(status.Message)
	}
	const longest = 300
	text := plain.Text(strings.Join(strings.Fields(string(body)), " "))
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}
