// Exchanges over http and https, by libcurl if CMake found it.
#pragma once

#include <mpt/net/download.hpp>
#include <mpt/net/http.hpp>

namespace apps {

/// Empty in a build without the library, with which no http_client can be made.
[[nodiscard]] mpt::net::http_transport http_transport();

/// The parameters of downloads. Waits between attempts are reported on standard error. Throws in a
/// build without the library.
[[nodiscard]] mpt::net::network network();

/// The same with the caller's attempts and waits; waits are reported if `says_waits`.
[[nodiscard]] mpt::net::network network_with(mpt::net::retry_policy const& policy,
                                             mpt::net::http_client::sleeper sleep, bool says_waits);

}  // namespace apps
