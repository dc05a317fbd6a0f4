#include <cli/page_server.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <system_error>

#include <fmt/format.h>
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

/// A browser's request, up to the end of its head; "" if it does not come within seconds.
std::string read_head(int connection) {
  constexpr std::size_t longest = 16'384;
  std::string out;
  std::array<char, 4096> part{};
  while (out.find("\r\n\r\n") == std::string::npos) {
    auto const count = ::recv(connection, part.data(), part.size(), 0);
    if (count <= 0 || out.size() > longest) return {};
    out.append(part.data(), static_cast<std::size_t>(count));
  }
  return out;
}

void send_all(int connection, std::string_view text) {
  while (!text.empty()) {
    auto const count = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (count <= 0) return;  // the browser has left
    text.remove_prefix(static_cast<std::size_t>(count));
  }
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

}  // namespace

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

void page_server::answer(std::function<std::string()> const& make_page, int refresh_seconds) {
  while (true) {
    parallel::descriptor const connection(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.get() < 0) {
      parallel::require(errno == EINTR || errno == ECONNABORTED || errno == EMFILE,
                        "--serve: no more connections: ", std::generic_category().message(errno));
      continue;
    }
    timeval const patience{.tv_sec = 5, .tv_usec = 0};
    for (int const direction : {SO_RCVTIMEO, SO_SNDTIMEO})
      ::setsockopt(connection.get(), SOL_SOCKET, direction, &patience, sizeof patience);
    auto const request = read_head(connection.get());
    if (!request.empty())
      send_all(connection.get(), response_to(request, make_page, refresh_seconds));
  }
}

}  // namespace apps
