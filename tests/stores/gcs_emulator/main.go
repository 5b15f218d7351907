// A Google Cloud Storage emulator for tests: fake-gcs-server, with the part of the XML API in front of it that clients
// such as Rust's object_store use and fake-gcs-server lacks. Every request is translated to the JSON API, so what decides
// a precondition on a generation is the emulator.
//
//	gcs-emulator PORT BUCKET
package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

type front struct {
	json    http.Handler
	lock    sync.Mutex
	uploads map[string]map[int][]byte
}

func main() {
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true})
	if err != nil {
		log.Fatal(err)
	}
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: os.Args[2]})
	handler := &front{json: server.HTTPHandler(), uploads: map[string]map[int][]byte{}}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], handler))
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, escaped, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	key, err := url.PathUnescape(escaped)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	query := r.URL.Query()
	switch {
	case bucket == "":
		w.WriteHeader(http.StatusOK)
	case key == "" && r.Method == http.MethodGet:
		f.list(w, bucket, query)
	case r.Method == http.MethodPost && query.Has("uploads"):
		f.begin(w)
	case query.Has("uploadId"):
		f.multipart(w, r, bucket, key, query.Get("uploadId"))
	case r.Method == http.MethodPut:
		f.insert(w, bucket, key, r.Header.Get("x-goog-if-generation-match"), r.Body)
	case r.Method == http.MethodDelete:
		f.forward(w, http.MethodDelete, bucket, "/storage/v1"+object(bucket, key), r.Header)
	default:
		f.forward(w, r.Method, bucket, "/download/storage/v1"+object(bucket, key)+"?alt=media", r.Header)
	}
}

func object(bucket, key string) string {
	return "/b/" + url.PathEscape(bucket) + "/o/" + url.PathEscape(key)
}

func (f *front) insert(w http.ResponseWriter, bucket, key, generation string, body io.Reader) {
	query := url.Values{"uploadType": {"media"}, "name": {key}}
	if generation != "" {
		query.Set("ifGenerationMatch", generation)
	}
	target := "/upload/storage/v1/b/" + url.PathEscape(bucket) + "/o?" + query.Encode()
	answer := f.ask(http.MethodPost, target, nil, body)
	if answer.Code != http.StatusOK {
		f.fail(w, answer.Code, bucket)
		return
	}
	var stored struct{ Etag, Generation string }
	if err := json.Unmarshal(answer.Body.Bytes(), &stored); err != nil {
		f.fail(w, http.StatusInternalServerError, bucket)
		return
	}
	w.Header().Set("ETag", strconv.Quote(strings.Trim(stored.Etag, `"`)))
	w.Header().Set("x-goog-generation", stored.Generation)
}

func (f *front) begin(w http.ResponseWriter) {
	f.lock.Lock()
	defer f.lock.Unlock()
	id := fmt.Sprintf("upload-%d", len(f.uploads))
	f.uploads[id] = map[int][]byte{}
	fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
}

func (f *front) multipart(w http.ResponseWriter, r *http.Request, bucket, key, id string) {
	body, err := io.ReadAll(r.Body)
	f.lock.Lock()
	parts, known := f.uploads[id]
	number, _ := strconv.Atoi(r.URL.Query().Get("partNumber"))
	if known && err == nil && r.Method == http.MethodPut {
		parts[number] = body
	}
	if known && r.Method != http.MethodPut {
		f.uploads[id] = nil
	}
	f.lock.Unlock()
	switch {
	case err != nil:
		f.fail(w, http.StatusBadRequest, bucket)
	case !known || parts == nil:
		f.fail(w, http.StatusNotFound, bucket)
	case r.Method == http.MethodPut:
		w.Header().Set("ETag", fmt.Sprintf(`"part-%d"`, number))
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		inserted := httptest.NewRecorder()
		f.insert(inserted, bucket, key, "", joined(parts))
		if inserted.Code != http.StatusOK {
			f.fail(w, inserted.Code, bucket)
			return
		}
		fmt.Fprintf(w, "<CompleteMultipartUploadResult><ETag>%s</ETag></CompleteMultipartUploadResult>",
			inserted.Header().Get("ETag"))
	}
}

func joined(parts map[int][]byte) io.Reader {
	numbers := make([]int, 0, len(parts))
	for number := range parts {
		numbers = append(numbers, number)
	}
	sort.Ints(numbers)
	readers := make([]io.Reader, 0, len(parts))
	for _, number := range numbers {
		readers = append(readers, strings.NewReader(string(parts[number])))
	}
	return io.MultiReader(readers...)
}

type listed struct {
	Prefixes      []string
	NextPageToken string
	Items         []struct{ Name, Size, Updated, Etag string }
}

type content struct{ Key, Size, LastModified, ETag string }

type commonPrefix struct{ Prefix string }

type listBucketResult struct {
	NextContinuationToken string `xml:",omitempty"`
	Contents              []content
	CommonPrefixes        []commonPrefix
}

func (f *front) list(w http.ResponseWriter, bucket string, asked url.Values) {
	after := asked.Get("start-after")
	query := url.Values{"maxResults": {"1000"}, "startOffset": {after}}
	for from, to := range map[string]string{"prefix": "prefix", "delimiter": "delimiter", "continuation-token": "pageToken"} {
		query.Set(to, asked.Get(from))
	}
	answer := f.ask(http.MethodGet, "/storage/v1/b/"+url.PathEscape(bucket)+"/o?"+query.Encode(), nil, nil)
	var page listed
	if answer.Code != http.StatusOK || json.Unmarshal(answer.Body.Bytes(), &page) != nil {
		f.fail(w, answer.Code, bucket)
		return
	}
	result := listBucketResult{NextContinuationToken: page.NextPageToken}
	for _, item := range page.Items {
		if item.Name != after { // the JSON API's offset is inclusive
			result.Contents = append(result.Contents, content{item.Name, item.Size, item.Updated, item.Etag})
		}
	}
	for _, prefix := range page.Prefixes {
		result.CommonPrefixes = append(result.CommonPrefixes, commonPrefix{prefix})
	}
	encoded, _ := xml.Marshal(struct {
		XMLName xml.Name `xml:"ListBucketResult"`
		listBucketResult
	}{listBucketResult: result})
	_, _ = w.Write(encoded)
}

func (f *front) forward(w http.ResponseWriter, method, bucket, target string, header http.Header) {
	answer := f.ask(method, target, header, nil)
	if answer.Code >= 400 && answer.Code != http.StatusRequestedRangeNotSatisfiable {
		f.fail(w, answer.Code, bucket)
		return
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	if w.Header().Get("ETag") == "" {
		w.Header().Set("ETag", strconv.Quote(w.Header().Get("X-Goog-Generation")))
	}
	w.WriteHeader(answer.Code)
	if method != http.MethodHead {
		_, _ = w.Write(answer.Body.Bytes())
	}
}

func (f *front) ask(method, target string, header http.Header, body io.Reader) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, target, body)
	if value := header.Get("Range"); value != "" {
		request.Header.Set("Range", value)
	}
	answer := httptest.NewRecorder()
	f.json.ServeHTTP(answer, request)
	return answer
}

// fail answers as the XML API does, which tells a missing bucket from a missing object.
func (f *front) fail(w http.ResponseWriter, code int, bucket string) {
	name := strings.ReplaceAll(http.StatusText(code), " ", "")
	if code == http.StatusNotFound {
		name = "NoSuchKey"
		if f.ask(http.MethodGet, "/storage/v1/b/"+url.PathEscape(bucket), nil, nil).Code != http.StatusOK {
			name = "NoSuchBucket"
		}
	}
	w.WriteHeader(code)
	fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", name)
}
