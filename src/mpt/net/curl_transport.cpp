#include <mpt/net/curl_transport.hpp>

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include <mpt/ascii.hpp>
#include <mpt/net/object_store.hpp>
#include <mpt/net/url.hpp>

namespace mpt::net {
namespace {

constexpr std::size_t max_error_bytes = 65536;
constexpr std::size_t max_header_bytes = std::size_t{1} << 20;

struct easy_deleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct list_deleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

/// The data of libcurl's callbacks of one exchange.
struct exchange {
  http_request const& request;
  body_sink const& sink;
  http_response response{};
  std::size_t header_bytes = 0;
  std::exception_ptr problem{};  ///< of a callback, which must not throw through libcurl
};

void take_header(exchange& current, std::string_view line) {
  current.header_bytes += line.size();
  parallel::require(current.header_bytes <= max_header_bytes,
                    "the server's headers have more than a mebibyte");
  if (line.starts_with("HTTP/")) {  // of an interim response (100) or the final one
    current.response.headers.clear();
    auto const space = std::min(line.find(' '), line.size());
    current.response.status = std::atoi(std::string(line.substr(space)).c_str());
    return;
  }
  auto const colon = line.find(':');
  if (colon == line.npos) return;
  current.response.headers.emplace_back(lower_case(trimmed(line.substr(0, colon))),
                                        trimmed(line.substr(colon + 1)));
}

void take_body(exchange& current, std::string_view bytes) {
  auto& response = current.response;
  if (response.succeeded() && current.sink) return current.sink(response, bytes);
  auto const limit = response.succeeded()
                         ? current.request.max_body_bytes
                         : std::min(current.request.max_body_bytes, max_error_bytes);
  auto const room = limit - std::min(limit, response.body.size());
  parallel::require(!response.succeeded() || bytes.size() <= room,
                    parse_url(current.request.url).displayed(), ": the answer has more than ",
                    limit, " bytes, which is more than such an answer has");
  response.body += bytes.substr(0, room);
}

template <void (*take)(exchange&, std::string_view)>
std::size_t callback(char* bytes, std::size_t size, std::size_t count, void* target) {
  auto& current = *static_cast<exchange*>(target);
  try {
    take(current, std::string_view(bytes, size * count));
    return size * count;
  } catch (...) {
    current.problem = std::current_exception();
    return 0;  // ends the exchange
  }
}

template <class Value>
void set(CURL* handle, CURLoption option, Value value) {
  auto const code = curl_easy_setopt(handle, option, value);
  if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
  parallel::require(code == CURLE_OK,
                    "libcurl does not take an option: ", curl_easy_strerror(code));
}

void add_header(std::unique_ptr<curl_slist, list_deleter>& list, std::string const& line) {
  parallel::require(line.find_first_of("\r\n") == std::string::npos,
                    "a header of a request, such as its token, has a line end");
  auto* const longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  static_cast<void>(list.release());
  list.reset(longer);
}

int look_for_cancellation(void* is_cancelled, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return (*static_cast<std::function<bool()> const*>(is_cancelled))() ? 1 : 0;
}

/// The login, the certificates that are trusted, and the question whether to go on.
void set_access(CURL* handle, http_request const& request) {
  if (request.login) {
    set(handle, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    set(handle, CURLOPT_USERNAME, request.login->name.c_str());
    set(handle, CURLOPT_PASSWORD, request.login->password.c_str());
  }
  char const* const file = std::getenv("SSL_CERT_FILE");
  std::string const authorities =
      request.authorities.empty() && file != nullptr ? file : request.authorities;
  if (!authorities.empty()) set(handle, CURLOPT_CAINFO, authorities.c_str());
  if (!request.checks_certificate) {
    set(handle, CURLOPT_SSL_VERIFYPEER, 0L);
    set(handle, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (!request.is_cancelled) return;
  set(handle, CURLOPT_NOPROGRESS, 0L);
  set(handle, CURLOPT_XFERINFOFUNCTION, &look_for_cancellation);
  set(handle, CURLOPT_XFERINFODATA,
      const_cast<void*>(static_cast<void const*>(&request.is_cancelled)));
}

void set_method(CURL* handle, http_request const& request) {
  if (request.method == "HEAD") {
    set(handle, CURLOPT_NOBODY, 1L);
  } else if (request.method != "GET" || !request.body.empty()) {
    if (!request.body.empty() || request.method == "POST") {
      set(handle, CURLOPT_POST, 1L);
      set(handle, CURLOPT_FRESH_CONNECT, 1L);  // over an old one that dies it is sent again unasked
      set(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      set(handle, CURLOPT_POSTFIELDS, request.body.c_str());
    }
    set(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

void set_timeouts(CURL* handle, http_timeouts const& timeouts) {
  set(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(timeouts.connect.count()));
  set(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);  // bytes a second
  set(handle, CURLOPT_LOW_SPEED_TIME,
      std::max(1L, static_cast<long>((timeouts.idle.count() + 999) / 1000)));
  set(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(timeouts.total.count()));
  set(handle, CURLOPT_NOSIGNAL, 1L);
}

/// Throws the error of an exchange that did not come to its end.
[[noreturn]] void fail_exchange(exchange const& current, CURLcode code, char const* details) {
  if (current.problem) std::rethrow_exception(current.problem);
  if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
  auto const address = parse_url(current.request.url);
  std::string const cause = details[0] != '\0' ? details : curl_easy_strerror(code);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
      throw connection_error(
          parallel::detail::presentable(address.scheme + "://" + address.host + ":" + address.port +
                                        " cannot be reached: " + cause),
          true);
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_ABORTED_BY_CALLBACK:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_WEIRD_SERVER_REPLY:
      throw connection_error(
          parallel::detail::presentable(address.displayed() + ": the connection failed: " + cause));
    case CURLE_PEER_FAILED_VERIFICATION:
      parallel::fail(address.displayed(), ": the server's certificate is not trusted: ", cause,
                     "; where it is your own server's, name its authority's file in SSL_CERT_FILE");
    default: parallel::fail(address.displayed(), ": the request failed: ", cause);
  }
}

class connection {
 public:
  connection() : handle_(curl_easy_init()) {
    parallel::require(handle_ != nullptr, "libcurl does not start");
  }

  http_response exchange_with(http_request const& request, body_sink const& sink) {
    auto* const handle = handle_.get();
    curl_easy_reset(handle);  // keeps the connections
    exchange current{request, sink};
    std::array<char, CURL_ERROR_SIZE> details{};
    std::unique_ptr<curl_slist, list_deleter> headers;
    for (auto const& [name, value] : request.headers)
      add_header(headers, value.empty() ? name + ";" : name + ": " + value);
    if (!request.bearer_token.empty())
      add_header(headers, "Authorization: Bearer " + request.bearer_token);
    if (request.signing_key)
      for (auto const& [name, value] :
           aws_signature(request, *request.signing_key, std::chrono::system_clock::now()))
        add_header(headers, name + ": " + value);
    add_header(headers, "Expect:");  // a body goes without waiting for leave
    set(handle, CURLOPT_URL, parse_url(request.url).text().c_str());
    set(handle, CURLOPT_PATH_AS_IS, 1L);
    set(handle, CURLOPT_HTTPHEADER, headers.get());
    set(handle, CURLOPT_USERAGENT, "parallellm");
    set(handle, CURLOPT_ERRORBUFFER, details.data());
    set_access(handle, request);
    set_method(handle, request);
    set_timeouts(handle, request.timeouts);
    set(handle, CURLOPT_HEADERFUNCTION, &callback<take_header>);
    set(handle, CURLOPT_HEADERDATA, static_cast<void*>(&current));
    set(handle, CURLOPT_WRITEFUNCTION, &callback<take_body>);
    set(handle, CURLOPT_WRITEDATA, static_cast<void*>(&current));
    auto const code = curl_easy_perform(handle);
    curl_easy_reset(handle);  // it refers to what is about to end
    if (code != CURLE_OK || current.problem) fail_exchange(current, code, details.data());
    current.response.url = request.url;
    return std::move(current.response);
  }

 private:
  std::unique_ptr<CURL, easy_deleter> handle_;
};

}  // namespace

http_transport curl_transport() {
  static auto const started = curl_global_init(CURL_GLOBAL_DEFAULT);  // once in a process
  parallel::require(started == CURLE_OK, "libcurl does not start");
  return [shared = std::make_shared<connection>()](http_request const& request,
                                                   body_sink const& sink) {
    return shared->exchange_with(request, sink);
  };
}

}  // namespace mpt::net
