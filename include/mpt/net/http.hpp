// http: requests over http and https, with redirects and retries. A transport makes one exchange
// with one server; curl_transport.hpp has one by libcurl. Without that library everything here
// compiles too.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt::net {

/// Headers in their order, each a name and a value.
using header_list = std::vector<std::pair<std::string, std::string>>;

/// A connection that could not be made, was cut or took too long: a later attempt may succeed.
class connection_error : public parallel::error {
 public:
  explicit connection_error(std::string const& message, bool is_unreachable = false)
      : error(message), is_unreachable_(is_unreachable) {}
  /// Whether no connection was made at all: the host has no address or does not answer.
  [[nodiscard]] bool is_unreachable() const { return is_unreachable_; }

 private:
  bool is_unreachable_;
};

/// How long the phases of an exchange may take.
struct http_timeouts {
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds idle{30'000};  ///< of a connection over which no byte comes
  std::chrono::milliseconds total{0};      ///< of the whole exchange; 0: unlimited
};

/// A key with which requests to an object store are signed (Amazon's signature version 4).
struct aws_key {
  std::string region;  ///< such as us-east-1
  std::string access_key;
  std::string secret_key;
  std::string session_token;  ///< empty for a key that does not expire
};

/// A name and password for HTTP's Basic authentication.
struct basic_login {
  std::string name;
  std::string password;
};

/// Which redirects are followed.
enum class redirects {
  none,         ///< the redirect itself is the response
  same_server,  ///< as `none` where it leads to another server
  any_server
};

/// A request, with what may be sent to its own server alone.
struct http_request {
  std::string method = "GET";
  std::string url;
  header_list headers;       ///< sent to every server that a redirect leads to: nothing secret
  std::string bearer_token;  ///< "Authorization: Bearer ..." for the url's own server alone
  std::optional<aws_key> signing_key{};  ///< for the url's own server alone
  std::optional<basic_login> login{};    ///< for the url's own server alone
  std::string body;
  http_timeouts timeouts{};
  redirects followed = redirects::any_server;
  std::size_t max_body_bytes = std::size_t{64} << 20;  ///< of `http_response::body`
  bool checks_certificate = true;
  std::string authorities{};  ///< file of trusted certificates; empty: the system's
  /// Ends the exchange as a cut connection, about a second after it returns true, and no attempt
  /// follows; may be empty.
  std::function<bool()> is_cancelled{};
};

/// A server's answer.
struct http_response {
  int status = 0;
  std::string url;      ///< after redirects
  header_list headers;  ///< names in small letters
  std::string body;     ///< empty where a sink took it; of an error, at most the first 64 KiB

  [[nodiscard]] bool succeeded() const { return status >= 200 && status < 300; }
  /// The value of the header `name` (in small letters), or nothing.
  [[nodiscard]] std::optional<std::string> header(std::string_view name) const;
};

/// Takes the body of a successful response piece by piece. `head` has everything but the body. It
/// may throw to end the exchange.
using body_sink = std::function<void(http_response const& head, std::string_view bytes)>;

/// Makes one exchange: no redirects, no retries. Without a sink the body is in the response. Throws
/// connection_error, or parallel::error for what a later attempt does not mend.
using http_transport = std::function<http_response(http_request const&, body_sink const&)>;

/// How often and when a failed exchange is tried again.
struct retry_policy {
  int attempts = 6;                            ///< without progress
  int unreachable_attempts = 3;                ///< at most, of a host that cannot be reached
  std::chrono::milliseconds first_delay{500};  ///< doubled at each attempt, less a random part
  std::chrono::milliseconds longest_delay{30'000};
  std::chrono::milliseconds longest_retry_after{300'000};
  /// Whether a server that asks for more is asked again after longest_retry_after, not given up.
  bool shortens_retry_after = false;
};

/// Whether a server may answer otherwise later: 408, 425, 429 and 5xx, but not 501 and 505.
[[nodiscard]] bool is_temporary(int status);

/// "404 Not Found" and so on, for messages.
[[nodiscard]] std::string describe_status(int status);

/// Requests by a transport. Not for several threads at once.
class http_client {
 public:
  using sleeper = std::function<void(std::chrono::milliseconds)>;
  /// Called before each wait with a sentence that says why and how long.
  using note = std::function<void(std::string const&)>;

  explicit http_client(http_transport transport, retry_policy policy = {}, note on_wait = {},
                       sleeper sleep = {});

  /// One attempt; follows redirects as the request says, at most 10. The token and the signature go
  /// to the request's own server alone, and nothing goes from https to http.
  [[nodiscard]] http_response send(http_request const& request, body_sink const& sink = {}) const;

  /// Makes attempts until the response is not temporary, and returns it. Between them it waits, as
  /// long as a Retry-After header says. When no attempts are left it returns the last response or
  /// throws the last connection_error. `has_progressed`, if it is given, says whether the last
  /// attempt brought anything, which gives all attempts back. When `is_cancelled` returns true, no
  /// attempts are left.
  [[nodiscard]] http_response retry(std::function<http_response()> const& attempt,
                                    std::function<bool()> const& has_progressed = {},
                                    std::function<bool()> const& is_cancelled = {}) const;

  /// `send` with retries, for a request that may be sent twice.
  [[nodiscard]] http_response send_retrying(http_request const& request) const;

 private:
  http_transport transport_;
  retry_policy policy_;
  note on_wait_;
  sleeper sleep_;
};

/// The wait that a Retry-After header (seconds, or a date of HTTP) asks for at `current_time`;
/// nothing where it is neither.
[[nodiscard]] std::optional<std::chrono::milliseconds> read_retry_after(
    std::string const& value, std::chrono::system_clock::time_point current_time);

}  // namespace mpt::net
