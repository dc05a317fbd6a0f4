#include <cli/page_server.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <exception>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <mpt/ascii.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/hexadecimal.hpp>
#include <parallel/core/random_bytes.hpp>

namespace apps {

namespace {

std::string random_token() {
  std::array<std::byte, 16> bytes{};
  parallel::require(parallel::fill_randomly(bytes),
                    "--serve: the system gives no random numbers for a token");
  return parallel::hexadecimal(bytes);
}

/// `more`: further lines of the head.
std::string plain_response(std::string_view status, std::string_view text,
                           std::string_view more = {}) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n"
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: "
      "close\r\n{}\r\n{}\n",
      status, text.size() + 1, more, text);
}

/// Whether every Host line of a request's head names this machine, and there is one. A page of
/// another site reads this server's answers only under the name of that site.
bool names_this_machine(std::string_view head) {
  constexpr std::array<std::string_view, 3> names{"127.0.0.1", "localhost", "[::1]"};
  bool is_named = false;
  while (!head.empty()) {
    auto const line = head.substr(0, head.find("\r\n"));
    head.remove_prefix(std::min(line.size() + 2, head.size()));
    auto const colon = line.find(':');
    if (colon == line.npos || mpt::lower_case(line.substr(0, colon)) != "host") continue;
    auto const host = mpt::lower_case(mpt::trimmed(line.substr(colon + 1)));
    auto const name = std::string_view(host).substr(0, host.find(':', host.find(']') + 1));
    if (std::ranges::find(names, name) == names.end()) return false;
    is_named = true;
  }
  return is_named;
}

constexpr std::size_t most_browsers = 64;
constexpr std::chrono::seconds request_time{10};  // for the whole head of a request
constexpr std::chrono::seconds answer_time{60};   // for the whole answer

}  // namespace

/// A browser that is connected. Its request is read, and its answer written, as far as each goes
/// without waiting, so that a slow browser holds up no other.
class page_server::browser {
 public:
  explicit browser(parallel::descriptor connection) : connection_(std::move(connection)) {}

  /// What it waits for.
  [[nodiscard]] ::pollfd event() const {
    return {connection_.get(), static_cast<short>(answer_.empty() ? POLLIN : POLLOUT), 0};
  }
  [[nodiscard]] bool is_over() const { return is_over_ || clock::now() > deadline_; }

  /// Called when the event has come; `respond` makes the answer to a request.
  void proceed(std::function<std::string(std::string_view)> const& respond) {
    if (!answer_.empty()) return send_some();
    constexpr std::size_t longest = 16'384;
    std::array<char, 4096> part{};
    auto const count = ::recv(connection_.get(), part.data(), part.size(), MSG_DONTWAIT);
    is_over_ = count == 0 || (count < 0 && !is_premature()) || request_.size() > longest;
    if (count <= 0) return;
    request_.append(part.data(), static_cast<std::size_t>(count));
    if (request_.find("\r\n\r\n") == std::string::npos) return;
    answer_ = respond(request_);
    deadline_ = clock::now() + answer_time;
    send_some();
  }

 private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] static bool is_premature() { return errno == EINTR || errno == EAGAIN; }

  void send_some() {
    auto const count =
        ::send(connection_.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) answer_.erase(0, static_cast<std::size_t>(count));
    is_over_ = answer_.empty() || (count < 0 && !is_premature());
  }

  parallel::descriptor connection_;
  clock::time_point deadline_ = clock::now() + request_time;
  std::string request_, answer_;
  bool is_over_ = false;
};

page_server::page_server(std::uint16_t port)
    : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      port_(port),
      token_(random_token()) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::socklen_t length = sizeof place;
  int const reuse = 1;  // a port whose last connections are still closing
  ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  if (listener_.get() < 0 || ::bind(listener_.get(), address, length) != 0 ||
      ::listen(listener_.get(), 16) != 0 || ::getsockname(listener_.get(), address, &length) != 0) {
    int const problem = errno;
    parallel::fail("--serve: cannot listen at 127.0.0.1, port ", port, ": ",
                   std::generic_category().message(problem), "; choose another port, or 0");
  }
  port_ = ntohs(place.sin_port);
}

std::string page_server::address() const {
  return fmt::format("http://127.0.0.1:{}/?token={}", port_, token_);
}

bool page_server::has_token(std::string_view target) const {
  constexpr std::string_view name = "/?token=";
  if (!target.starts_with(name) || target.size() != name.size() + token_.size()) return false;
  unsigned difference = 0;  // takes the same time wherever they differ
  for (std::size_t i = 0; i < token_.size(); ++i)
    difference |= static_cast<unsigned>(target[name.size() + i] ^ token_[i]);
  return difference == 0;
}

std::string page_server::response_to(std::string_view request,
                                     std::function<std::string()> const& make_page,
                                     int refresh_seconds) const {
  if (!request.starts_with("GET ")) return plain_response("405 Method Not Allowed", "only GET");
  if (!names_this_machine(request))
    return plain_response(
        "403 Forbidden",
        "this page is shown at 127.0.0.1 and localhost alone, by report's address; "
        "from elsewhere use a tunnel: ssh -L PORT:127.0.0.1:PORT HOST");
  request.remove_prefix(4);
  if (!has_token(request.substr(0, request.find(' '))))
    return plain_response("403 Forbidden", "this address lacks the token that report has printed");
  try {
    auto const page = make_page();
    return fmt::format(
               "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n"
               "Refresh: {}\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
               "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
               page.size(), refresh_seconds) +
           page;
  } catch (std::exception const& problem) {  // it may be gone at the next question
    return plain_response("500 Internal Server Error", problem.what(),
                          fmt::format("Refresh: {}\r\n", refresh_seconds));
  }
}

void page_server::accept_browser(std::vector<browser>& browsers) const {
  parallel::descriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  parallel::require(
      connection.get() >= 0 || errno == EINTR || errno == ECONNABORTED || errno == EMFILE,
      "--serve: no more connections: ", std::generic_category().message(errno));
  if (connection.get() < 0) return;
  if (browsers.size() == most_browsers) browsers.erase(browsers.begin());  // the oldest
  browsers.emplace_back(std::move(connection));
}

void page_server::answer(std::function<std::string()> const& make_page, int refresh_seconds) {
  std::vector<browser> browsers;
  auto const respond = [&](std::string_view request) {
    return response_to(request, make_page, refresh_seconds);
  };
  while (true) {
    std::vector<::pollfd> events{{listener_.get(), POLLIN, 0}};
    for (auto const& one : browsers) events.push_back(one.event());
    if (::poll(events.data(), events.size(), browsers.empty() ? -1 : 1000) < 0) continue;
    for (std::size_t i = 0; i < browsers.size(); ++i)
      if (events[i + 1].revents != 0) browsers[i].proceed(respond);
    std::erase_if(browsers, [](browser const& one) { return one.is_over(); });
    if (events[0].revents != 0) accept_browser(browsers);
  }
}

}  // namespace apps
