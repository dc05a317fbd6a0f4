#include <mpt/net/url.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>

#include <mpt/ascii.hpp>
#include <parallel/core/error.hpp>

namespace mpt::net {
namespace {

/// Splits "host:port"; the port is empty if there is none.
void split_authority(std::string_view authority, url& out) {
  auto const bracket = authority.rfind(']');
  auto const colon = authority.rfind(':');
  bool const has_port = colon != authority.npos && (bracket == authority.npos || colon > bracket);
  out.host = lower_case(authority.substr(0, has_port ? colon : authority.npos));
  out.port = has_port ? std::string(authority.substr(colon + 1)) : std::string();
}

[[nodiscard]] bool is_port(std::string const& text) {
  unsigned value = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() && value > 0 && value < 65536;
}

[[nodiscard]] bool is_host(std::string_view host) {
  return !host.empty() && std::ranges::all_of(host, [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
           std::string_view("-._[]:").find(letter) != std::string_view::npos;
  });
}

/// Resolves the segments "." and ".." of a path.
[[nodiscard]] std::string without_dots(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    auto const length = std::min(path.find('/', 1), path.size());
    auto const segment = path.substr(0, length);
    path.remove_prefix(length);
    if (segment == "/." || segment == "/..") {
      if (segment == "/..") out.resize(out.empty() ? 0 : out.rfind('/'));
      if (path.empty()) out += '/';
    } else {
      out += segment;
    }
  }
  return out.empty() ? "/" : out;
}

}  // namespace

std::string url::authority() const {
  bool const is_default_port = port == (scheme == "https" ? "443" : "80");
  return host + (is_default_port ? "" : ":" + port);
}

std::string url::text() const { return scheme + "://" + authority() + path + query; }

std::string url::displayed() const {
  auto without_query = *this;
  without_query.query.clear();
  return without_query.text();
}

bool is_http_url(std::string_view text) {
  auto const scheme = lower_case(text.substr(0, text.find(':')));
  return (scheme == "http" || scheme == "https") && text.substr(scheme.size()).starts_with("://");
}

url parse_url(std::string_view text) {
  if (!is_http_url(text)) {
    bool const may_hold_password = text.find('@') != text.npos;
    parallel::fail("'", may_hold_password ? "..." : text.substr(0, text.find('?')),
                   "' is no address of the web; expected http://... or https://...");
  }
  parallel::require(std::ranges::none_of(text,
                                         [](char letter) {
                                           auto const code = static_cast<unsigned char>(letter);
                                           return code <= 0x20 || code == 0x7f;
                                         }),
                    "the address '", text.substr(0, text.find('?')),
                    "' has blanks or control characters; write them as %20 and so on");
  text = text.substr(0, text.find('#'));
  url out;
  auto const scheme_length = text.find(':');
  out.scheme = lower_case(text.substr(0, scheme_length));
  text.remove_prefix(scheme_length + 3);
  auto const authority = text.substr(0, text.find_first_of("/?"));
  text.remove_prefix(authority.size());
  // the message does not quote it: it may hold a password
  parallel::require(authority.find('@') == authority.npos,
                    "an address holds a user name or password; leave it out");
  split_authority(authority, out);
  if (out.port.empty()) out.port = out.scheme == "https" ? "443" : "80";
  parallel::require(is_host(out.host) && is_port(out.port), "'", authority,
                    "' is no host of an address; expected HOST or HOST:PORT");
  auto const question = std::min(text.find('?'), text.size());
  out.path = question == 0 ? "/" : std::string(text.substr(0, question));
  out.query = text.substr(question);
  return out;
}

url join_url(url const& base, std::string_view reference) {
  reference = reference.substr(0, reference.find('#'));
  if (is_http_url(reference)) return parse_url(reference);
  if (reference.starts_with("//")) return parse_url(base.scheme + ":" + std::string(reference));
  auto const scheme_end = reference.find(':');
  parallel::require(scheme_end == reference.npos || reference.find_first_of("/?") < scheme_end,
                    base.displayed(), ": the server leads to '",
                    reference.substr(0, reference.find('?')), "', which is no address of the web");
  auto out = base;
  auto const question = std::min(reference.find('?'), reference.size());
  auto const path = reference.substr(0, question);
  if (path.starts_with('/'))
    out.path = without_dots(path);
  else if (!path.empty())
    out.path = without_dots(base.path.substr(0, base.path.rfind('/') + 1) + std::string(path));
  out.query = reference.substr(question);
  return parse_url(out.text());
}

std::string percent_encoded(std::string_view text, bool keeps_slashes) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out;
  for (char const letter : text) {
    auto const code = static_cast<unsigned char>(letter);
    bool const is_plain = (code < 0x80 && std::isalnum(code) != 0) ||
                          std::string_view("-._~").find(letter) != std::string_view::npos ||
                          (keeps_slashes && letter == '/');
    if (is_plain) {
      out += letter;
    } else {
      out += '%';
      out += digits[code >> 4U];
      out += digits[code & 15U];
    }
  }
  return out;
}

}  // namespace mpt::net
