#include <mpt/net/object_store.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <mpt/ascii.hpp>
#include <mpt/digest.hpp>
#include <mpt/net/url.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace mpt::net {
namespace {

/// The entries of one profile in a credentials file.
[[nodiscard]] std::map<std::string, std::string> read_profile(std::filesystem::path const& file,
                                                              std::string const& profile) {
  std::map<std::string, std::string> out;
  std::istringstream lines(parallel::read_text_file(file, std::uint64_t{1} << 20));
  bool is_inside = false;
  for (std::string line; std::getline(lines, line);) {
    auto const text = trimmed(line);
    if (text.starts_with('#') || text.starts_with(';')) continue;
    if (text.starts_with('[')) {
      is_inside = trimmed(text.substr(1, text.find(']') - 1)) == profile;
    } else if (auto const equals = text.find('='); is_inside && equals != std::string::npos) {
      out[std::string(trimmed(text.substr(0, equals)))] = trimmed(text.substr(equals + 1));
    }
  }
  return out;
}

/// Throws where a header cannot hold a part of the key. The message does not quote it.
void check_part(std::string const& part, std::string const& name, std::string const& source) {
  parallel::require(
      std::ranges::all_of(part, [](char letter) { return letter > 0x20 && letter < 0x7f; }), source,
      ": ", name, " has blanks or other characters inside that no key has");
}

}  // namespace

object_store read_object_store(
    std::function<std::optional<std::string>(std::string const& name)> const& variables) {
  auto const value = [&](char const* name) {
    return std::string(trimmed(variables(name).value_or("")));
  };
  object_store out;
  for (char const* const name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT_URL"})
    if (out.endpoint.empty()) {
      out.endpoint = value(name);
      while (out.endpoint.ends_with('/')) out.endpoint.pop_back();
      parallel::require(out.endpoint.empty() || is_http_url(out.endpoint), name,
                        ": is no address; expected something like https://storage.example.org");
    }
  for (char const* const name : {"AWS_REGION", "AWS_DEFAULT_REGION"})
    if (auto const region = value(name); !region.empty()) {
      check_part(region, name, "the environment");
      out.region = region;
      break;
    }
  aws_key key{out.region, value("AWS_ACCESS_KEY_ID"), value("AWS_SECRET_ACCESS_KEY"),
              value("AWS_SESSION_TOKEN")};
  out.key_source = "AWS_ACCESS_KEY_ID";
  if (key.access_key.empty() && key.secret_key.empty()) {
    auto const named = value("AWS_SHARED_CREDENTIALS_FILE");
    std::filesystem::path const file = named.empty() ? value("HOME") + "/.aws/credentials" : named;
    auto const chosen = value("AWS_PROFILE");
    auto const profile = chosen.empty() ? std::string("default") : chosen;
    std::error_code absent;
    bool const is_file = std::filesystem::is_regular_file(file, absent);
    auto entries = is_file ? read_profile(file, profile) : std::map<std::string, std::string>();
    out.key_source = file.native() + " [" + profile + "]";
    key.access_key = entries["aws_access_key_id"];
    key.secret_key = entries["aws_secret_access_key"];
    key.session_token = entries["aws_session_token"];
    bool const has_key = !key.access_key.empty() || !key.secret_key.empty();
    parallel::require(has_key || chosen.empty(), "AWS_PROFILE: ", file.native(),
                      is_file ? "" : " (not there)", " has no key of profile '", chosen,
                      "' (aws_access_key_id, aws_secret_access_key); correct the name, or unset "
                      "AWS_PROFILE");
    if (!has_key) return out;
  }
  parallel::require(!key.access_key.empty() && !key.secret_key.empty(), out.key_source,
                    ": is half a key; a key has an id (AWS_ACCESS_KEY_ID) and a secret "
                    "(AWS_SECRET_ACCESS_KEY)");
  check_part(key.access_key, "the key's id", out.key_source);
  check_part(key.secret_key, "the key's secret", out.key_source);
  check_part(key.session_token, "the session token", out.key_source);
  out.key = std::move(key);
  return out;
}

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
