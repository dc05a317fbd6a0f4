// Which network interface the ranks of this machine listen on.
#pragma once

#include <string>

namespace apps {

/// Throws `error` unless this machine has an interface of that name with an address, naming those
/// that it has.
void require_interface(std::string const& name);

/// That of the default route, or the first with an address that is not the machine's own; throws
/// where there is none.
[[nodiscard]] std::string usual_interface();

}  // namespace apps
