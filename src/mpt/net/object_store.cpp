#include <mpt/net/object_store.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>
#include <system_error>

#include <mpt/ascii.hpp>
#include <mpt/net/url.hpp>
#include <parallel/core/file.hpp>

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

}  // namespace mpt::net
