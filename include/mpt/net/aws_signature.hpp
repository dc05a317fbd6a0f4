// aws_signature: signs requests to an object store by Amazon's signature version 4.
#pragma once

#include <chrono>

#include <mpt/net/http.hpp>

namespace mpt::net {

/// The headers that sign `request` for service s3 at `time`: Authorization, x-amz-date,
/// x-amz-content-sha256, and x-amz-security-token for a key that expires. They cover the request's
/// own headers but Accept-Encoding, which proxies change. The path of the url is signed as it is
/// spelt.
[[nodiscard]] header_list aws_signature(http_request const& request, aws_key const& key,
                                        std::chrono::system_clock::time_point time);

}  // namespace mpt::net
