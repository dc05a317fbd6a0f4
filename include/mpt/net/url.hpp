// url: the parts of an http or https address, and its spelling in messages.
#pragma once

#include <string>
#include <string_view>

namespace mpt::net {

/// The parts of an http or https address. A server is meant by scheme, host and port together.
struct url {
  std::string scheme;  ///< "http" or "https"
  std::string host;    ///< in small letters; IPv6 in brackets
  std::string port;    ///< also where the address has none: 80 or 443
  std::string path;    ///< begins with '/'
  std::string query;   ///< empty, or begins with '?'

  [[nodiscard]] bool has_server_of(url const& other) const {
    return scheme == other.scheme && host == other.host && port == other.port;
  }
  /// "host", or "host:port" where the port is not the scheme's own: the Host header.
  [[nodiscard]] std::string authority() const;
  /// The address as it is requested.
  [[nodiscard]] std::string text() const;
  /// The address without its query, which may hold a signature.
  [[nodiscard]] std::string displayed() const;
};

/// Throws unless `text` is an http or https address without a user name or password, blanks and
/// control characters. A fragment is left out.
[[nodiscard]] url parse_url(std::string_view text);

/// The address that `reference` (a whole address, "//host/path", "/path" or "name") means in a
/// document at `base`.
[[nodiscard]] url join_url(url const& base, std::string_view reference);

/// `text` with all bytes but letters, digits and "-._~" as %XX; '/' stays if `keeps_slashes`.
[[nodiscard]] std::string percent_encoded(std::string_view text, bool keeps_slashes = false);

/// Whether `text` begins with "http://" or "https://".
[[nodiscard]] bool is_http_url(std::string_view text);

}  // namespace mpt::net
