#include <mpt/net/http.hpp>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <random>
#include <string>
#include <thread>

#include <time.h>
#include <mpt/net/url.hpp>

namespace mpt::net {
namespace {

constexpr int max_redirects = 10;

[[nodiscard]] bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// The wait before attempt `retries` + 2: half to all of the doubled first delay, so that many
/// clients do not come back together.
[[nodiscard]] std::chrono::milliseconds backoff(retry_policy const& policy, int retries) {
  auto delay = policy.first_delay;
  for (int i = 0; i < retries && delay < policy.longest_delay; ++i) delay *= 2;
  delay = std::min(delay, policy.longest_delay);
  std::random_device device;
  std::uniform_real_distribution<double> part(0.5, 1.0);
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(static_cast<double>(delay.count()) * part(device)));
}

}  // namespace

std::optional<std::string> http_response::header(std::string_view name) const {
  for (auto const& [key, value] : headers)
    if (key == name) return value;
  return std::nullopt;
}

bool is_temporary(int status) {
  return status == 408 || status == 425 || status == 429 ||
         (status >= 500 && status < 600 && status != 501 && status != 505);
}

std::string describe_status(int status) {
  struct row {
    int status;
    char const* phrase;
  };
  constexpr row rows[] = {{400, "Bad Request"},
                          {401, "Unauthorized"},
                          {403, "Forbidden"},
                          {404, "Not Found"},
                          {408, "Request Timeout"},
                          {410, "Gone"},
                          {416, "Range Not Satisfiable"},
                          {429, "Too Many Requests"},
                          {500, "Internal Server Error"},
                          {502, "Bad Gateway"},
                          {503, "Service Unavailable"},
                          {504, "Gateway Timeout"}};
  for (auto const& known : rows)
    if (known.status == status) return std::to_string(status) + " " + known.phrase;
  return std::to_string(status);
}

std::optional<std::chrono::milliseconds> read_retry_after(
    std::string const& value, std::chrono::system_clock::time_point current_time) {
  std::int64_t seconds = 0;
  auto const [end, problem] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (problem == std::errc() && end == value.data() + value.size()) {
    if (seconds < 0) return std::nullopt;
    return std::chrono::seconds(std::min<std::int64_t>(seconds, 1'000'000));
  }
  // the date of HTTP, and its two older forms, of RFC 850 and of C's asctime
  for (char const* const form :
       {"%a, %d %b %Y %H:%M:%S GMT", "%a, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"}) {
    std::tm date{};
    char const* const rest = ::strptime(value.c_str(), form, &date);
    if (rest == nullptr || *rest != '\0') continue;
    auto const wait = static_cast<std::int64_t>(::timegm(&date)) -
                      static_cast<std::int64_t>(std::chrono::system_clock::to_time_t(current_time));
    return std::chrono::seconds(std::clamp<std::int64_t>(wait, 0, 1'000'000));
  }
  return std::nullopt;
}

http_client::http_client(http_transport transport, retry_policy policy, note on_wait, sleeper sleep)
    : transport_(std::move(transport)),
      policy_(policy),
      on_wait_(std::move(on_wait)),
      sleep_(std::move(sleep)) {
  parallel::require(static_cast<bool>(transport_),
                    "these programs were built without libcurl, so nothing can be downloaded; "
                    "install libcurl4-openssl-dev and build again");
  if (!sleep_) sleep_ = [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); };
}

http_response http_client::send(http_request const& request, body_sink const& sink) const {
  auto const origin = parse_url(request.url);
  auto address = origin;
  auto hop = request;
  for (int count = 0;; ++count) {
    hop.url = address.text();
    bool const is_own_server = address.has_server_of(origin);
    hop.bearer_token = is_own_server ? request.bearer_token : std::string();
    hop.signing_key = is_own_server ? request.signing_key : std::nullopt;
    hop.login = is_own_server ? request.login : std::nullopt;
    auto response = transport_(hop, sink);
    response.url = hop.url;
    auto const location = response.header("location");
    if (!is_redirect(response.status) || !location || request.followed == redirects::none)
      return response;
    auto const next = join_url(address, *location);
    if (request.followed == redirects::same_server && !next.has_server_of(origin)) return response;
    parallel::require(address.scheme == "http" || next.scheme == "https", address.displayed(),
                      ": the server leads from https to ", next.displayed(),
                      ", which anyone between could read and change; nothing is sent there");
    parallel::require(count < max_redirects, origin.displayed(), ": the server leads from address ",
                      "to address more than ", max_redirects, " times");
    if (response.status <= 303 && hop.method != "GET" && hop.method != "HEAD") {
      hop.method = "GET";
      hop.body.clear();
    }
    address = next;
  }
}

http_response http_client::retry(std::function<http_response()> const& attempt,
                                 std::function<bool()> const& has_progressed,
                                 std::function<bool()> const& is_cancelled) const {
  auto const has_ended = [&] { return is_cancelled && is_cancelled(); };
  for (int failures = 0;;) {
    std::string cause;
    std::optional<std::chrono::milliseconds> wanted;
    std::optional<http_response> response;
    std::exception_ptr problem;
    int limit = policy_.attempts;
    try {
      response = attempt();
      if (!is_temporary(response->status)) return *response;
      cause =
          parse_url(response->url).displayed() + " answers " + describe_status(response->status);
      if (auto const value = response->header("retry-after"))
        wanted = read_retry_after(*value, std::chrono::system_clock::now());
    } catch (connection_error const& error) {
      problem = std::current_exception();
      cause = error.what();
      if (error.is_unreachable()) limit = std::min(limit, policy_.unreachable_attempts);
    }
    failures = has_progressed && has_progressed() ? 1 : failures + 1;
    if (wanted && policy_.shortens_retry_after)
      wanted = std::min(*wanted, policy_.longest_retry_after);
    auto const delay =
        std::max(backoff(policy_, failures - 1), wanted.value_or(std::chrono::milliseconds(0)));
    if (failures >= limit || delay > policy_.longest_retry_after || has_ended()) {
      if (problem) std::rethrow_exception(problem);
      return *response;
    }
    if (on_wait_)
      on_wait_(parallel::concat(cause, "; trying again in ", (delay.count() + 999) / 1000, " s"));
    sleep_(delay);
  }
}

http_response http_client::send_retrying(http_request const& request) const {
  return retry([&] { return send(request); }, {}, request.is_cancelled);
}

}  // namespace mpt::net
