// curl_transport: exchanges over http and https by libcurl, for builds that found it
// (ParallelLM::curl).
#pragma once

#include <mpt/net/http.hpp>

namespace mpt::net {

/// A transport that keeps its connections open between exchanges. A token, key or password goes
/// through memory alone: never into arguments, files or messages. Copies share one connection pool
/// and must not be used by several threads at once. A proxy is taken from the environment
/// (https_proxy, no_proxy), certificate authorities from the system (SSL_CERT_FILE, if it is set).
[[nodiscard]] http_transport curl_transport();

}  // namespace mpt::net
