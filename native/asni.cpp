// The C ABI that src/asni/engine/native.py loads, and the choice of the instruction set.
#include "operation.h"
#include "program.h"

#include <atomic>
#include <cstring>
#include <new>

#define ASNI_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" {
#ifdef ASNI_HAVE_V2
extern const asni_kernels asni_kernels_x86_64_v2;
#endif
#ifdef ASNI_HAVE_V3
extern const asni_kernels asni_kernels_x86_64_v3;
#endif
#ifdef ASNI_HAVE_V4
extern const asni_kernels asni_kernels_x86_64_v4;
#endif
#ifdef ASNI_HAVE_NEON
extern const asni_kernels asni_kernels_neon;
#endif
#ifdef ASNI_HAVE_GENERIC
extern const asni_kernels asni_kernels_generic;
#endif
}

namespace {

struct Variant {
    const asni_kernels *kernels;
    bool (*supported)();
};

#if defined(__x86_64__)
// Feature by feature: Clang does not know the names of the levels.
bool has_v2() { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"); }
bool has_v3() {
    return has_v2() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
bool has_v4() {
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif
[[maybe_unused]] bool always() { return true; }

// From the best to the oldest.
const Variant VARIANTS[] = {
#ifdef ASNI_HAVE_V4
    {&asni_kernels_x86_64_v4, has_v4},
#endif
#ifdef ASNI_HAVE_V3
    {&asni_kernels_x86_64_v3, has_v3},
#endif
#ifdef ASNI_HAVE_V2
    {&asni_kernels_x86_64_v2, has_v2},
#endif
#ifdef ASNI_HAVE_NEON
    {&asni_kernels_neon, always},
#endif
#ifdef ASNI_HAVE_GENERIC
    {&asni_kernels_generic, always},
#endif
};

const asni_kernels *find(const char *name) {
    for (const Variant &variant : VARIANTS)
        if (variant.supported() && (!name || !std::strcmp(variant.kernels->name, name))) return variant.kernels;
    return nullptr;
}

std::atomic<const asni_kernels *> chosen{nullptr};

const asni_kernels *kernels() {
    const asni_kernels *found = chosen.load();
    if (!found) chosen.store(found = find(nullptr));
    return found;
}

} // namespace

// Raised whenever a structure or function of this interface changes.
ASNI_EXPORT int asni_abi(void) { return 4; }

ASNI_EXPORT int asni_supported(const char *isa) { return find(isa) != nullptr; }

ASNI_EXPORT int asni_choose(const char *isa) {
    const asni_kernels *found = find(isa);
    if (!found) return 1;
    chosen.store(found);
    return 0;
}

ASNI_EXPORT const char *asni_isa(void) { return kernels() ? kernels()->name : ""; }

ASNI_EXPORT int asni_lanes(void) { return kernels() ? (int)kernels()->lanes : 0; }

// Bytes of the parameters of a kernel, or of a run if there is no such kernel.
ASNI_EXPORT int64_t asni_size(int64_t kernel) {
    return kernel >= 0 && kernel < ASNI_KERNEL_COUNT ? kernels()->sizes[kernel] : (int64_t)sizeof(asni_run);
}

ASNI_EXPORT int64_t asni_tile(int64_t kernel, int64_t index, int64_t *to) { return kernels()->tile(kernel, index, to); }

ASNI_EXPORT int64_t asni_scratch(int64_t kernel, const void *parameters) {
    return kernels()->scratch(kernel, parameters);
}

ASNI_EXPORT void *asni_team_new(int64_t threads) { return new (std::nothrow) Team(threads); }

ASNI_EXPORT void asni_team_delete(void *team) { delete (Team *)team; }

ASNI_EXPORT void asni_execute(void *team, const asni_operation *operations, int64_t count, const asni_run *run) {
    execute(*kernels(), *(Team *)team, operations, count, *run);
}

ASNI_EXPORT void asni_time(const asni_operation *operations, int64_t count, const asni_run *run, double *seconds) {
    time_operations(*kernels(), operations, count, *run, seconds);
}

ASNI_EXPORT double asni_peak(void) { return peak(*kernels()); }
