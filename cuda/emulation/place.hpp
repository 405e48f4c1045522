// What: places in the source, which every report of a misuse names.
#pragma once

#include <source_location>

namespace epibias::cuda::emulation {

using Place = std::source_location;

// The file without its folders: reports are compared between machines.
inline const char* file_name(const Place& place) {
    const char* name = place.file_name();
    for (const char* at = name; *at != '\0'; ++at) {
        if (*at == '/') name = at + 1;
    }
    return name;
}

}  // namespace epibias::cuda::emulation
