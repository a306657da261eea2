package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime"
)

const (
	statusPath = "/statusz"
	configPath = "/configz"
	// maxAnswer bounds what is read of an answer: a status names every informer.
	maxAnswer = 64 << 20
)

// Status asks for the status. raw is the answer as it came, in JSON.
func (c *Client) Status(ctx context.Context) (status *runtime.Status, raw []byte, err error) {
	raw, err = c.get(ctx, statusPath, "?format=json")
	if err != nil {
		return nil, nil, err
	}
	status = &runtime.Status{}
	if err := json.Unmarshal(raw, status); err != nil || status.Configuration.Hash == "" {
		return nil, nil, fmt.Errorf("%s%s does not answer as this program would: is it a kube-controller-manager of kcmd, in a version like this one's?",
			c.Server, statusPath)
	}
	return status, raw, nil
}

// Config asks for the configuration in force.
func (c *Client) Config(ctx context.Context) (*v1beta1.KubeControllerManagerConfiguration, error) {
	raw, err := c.get(ctx, configPath, "")
	if err != nil {
		return nil, err
	}
	inForce := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &inForce); err != nil || inForce[v1beta1.GroupName] == nil {
		return nil, fmt.Errorf("%s%s has no %s: is it a kube-controller-manager of kcmd?", c.Server, configPath, v1beta1.GroupName)
	}
	document, err := config.Load(c.Server+configPath, inForce[v1beta1.GroupName])
	if err != nil {
		return nil, fmt.Errorf("the configuration in force is not valid for this program, which may be of another version: %w", err)
	}
	return document.Config, nil
}

func (c *Client) get(ctx context.Context, path, query string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Server+path+query, nil)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", c.Server, err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", c.Server, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, c.refused(path, response.StatusCode, reason(body))
	}
	return body, nil
}

// reason is the message of an answer, which may be a Status of the API or plain text.
func reason(body []byte) string {
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return status.Message
	}
	const longest = 300
	text := strings.Join(strings.Fields(string(body)), " ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}
