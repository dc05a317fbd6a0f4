#include <mpt/net/aws_signature.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <mpt/ascii.hpp>
#include <mpt/digest.hpp>
#include <mpt/net/url.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace mpt::net {
namespace {

/// A value without blanks at its ends, with one blank for several inside.
[[nodiscard]] std::string canonical_value(std::string_view value) {
  std::string out;
  for (char const letter : value) {
    if (letter != ' ' && letter != '\t')
      out += letter;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

/// The parameters of a query ("?b=2&a") in order: "a=&b=2".
[[nodiscard]] std::string canonical_query(std::string_view query) {
  if (query.starts_with('?')) query.remove_prefix(1);
  std::vector<std::string> parameters;
  while (!query.empty()) {
    auto const end = std::min(query.find('&'), query.size());
    std::string parameter(query.substr(0, end));
    if (parameter.find('=') == std::string::npos) parameter += '=';
    parameters.push_back(std::move(parameter));
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  std::ranges::sort(parameters);
  std::string out;
  for (auto const& parameter : parameters) out += (out.empty() ? "" : "&") + parameter;
  return out;
}

}  // namespace

header_list aws_signature(http_request const& request, aws_key const& key,
                          std::chrono::system_clock::time_point time) {
  auto const seconds = fmt::gmtime(std::chrono::system_clock::to_time_t(time));
  auto const date = fmt::format("{:%Y%m%d}", seconds);
  auto const address = parse_url(request.url);
  auto const payload = digest_of(digest_kind::sha256, request.body);
  header_list out{{"x-amz-content-sha256", payload},
                  {"x-amz-date", fmt::format("{:%Y%m%dT%H%M%SZ}", seconds)}};
  if (!key.session_token.empty()) out.emplace_back("x-amz-security-token", key.session_token);
  std::map<std::string, std::string> signed_headers{{"host", address.authority()}};
  for (auto const* const list : std::array<header_list const*, 2>{&request.headers, &out})
    for (auto const& [name, value] : *list) {
      auto const small = lower_case(name);
      if (small != "accept-encoding") signed_headers[small] = canonical_value(value);
    }
  std::string names, lines;
  for (auto const& [name, value] : signed_headers) {
    names += (names.empty() ? "" : ";") + name;
    lines += name + ":" + value + "\n";
  }
  auto const canonical = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, address.path,
                                     canonical_query(address.query), lines, names, payload);
  auto const scope = fmt::format("{}/{}/s3/aws4_request", date, key.region);
  auto const text = fmt::format("AWS4-HMAC-SHA256\n{:%Y%m%dT%H%M%SZ}\n{}\n{}", seconds, scope,
                                digest_of(digest_kind::sha256, canonical));
  std::string chain = "AWS4" + key.secret_key;
  for (std::string_view const part :
       std::array<std::string_view, 4>{date, key.region, "s3", "aws4_request"})
    chain = hmac_sha256(chain, part);
  auto const signature = hmac_sha256(chain, text);
  out.emplace_back("Authorization",
                   fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
                               key.access_key, scope, names,
                               parallel::hexadecimal(std::as_bytes(std::span(signature)))));
  return out;
}

}  // namespace mpt::net
