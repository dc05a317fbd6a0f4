// object_store: where an object store that speaks S3 is and with which key, as Amazon's own
// programs are told, and the signatures of requests to it (Amazon's version 4).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <mpt/net/http.hpp>

namespace mpt::net {

struct object_store {
  std::string endpoint;  ///< address of the store; empty: Amazon's
  std::string region = "us-east-1";
  std::optional<aws_key> key{};  ///< nothing: requests are not signed, as for public buckets
  std::string key_source{};      ///< where the key is from, for errors
};

/// Reads AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, S3_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION and
/// the key: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; without them, the
/// profile AWS_PROFILE (else "default") in the file AWS_SHARED_CREDENTIALS_FILE (else
/// ~/.aws/credentials). `variables` gives the value of a variable of the environment.
[[nodiscard]] object_store read_object_store(
    std::function<std::optional<std::string>(std::string const& name)> const& variables);

/// The headers that sign `request` for service s3 at `time`: Authorization, x-amz-date,
/// x-amz-content-sha256, and x-amz-security-token for a key that expires. They cover the request's
/// own headers but Accept-Encoding, which proxies change. The path of the url is signed as it is
/// spelt.
[[nodiscard]] header_list aws_signature(http_request const& request, aws_key const& key,
                                        std::chrono::system_clock::time_point time);

}  // namespace mpt::net
