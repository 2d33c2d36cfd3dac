/* A Cortex-M4 of QEMU's mps2-an386 from reset to main; newlib talks to the host by semihosting. */
#include <stdint.h>

extern uint32_t stack_top;
extern void _start(void);

void reset(void)
{
    *(volatile uint32_t *)0xE000ED88 |= 0xF << 20; /* the floating-point unit */
    __asm volatile("dsb\nisb");
    _start();
}

void fault(void)
{
    for (;;)
        ;
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &stack_top, (void *)reset, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
};
