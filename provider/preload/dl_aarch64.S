/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dlsym and dlvsym for aarch64, as in dl_x86_64.S: ask urxe_dl_serve(), return what it finds, and
 * otherwise branch to the next definition with the link register as our caller set it.
 */
#ifdef __aarch64__

	.macro	hook name, next, versioned
	.globl	\name
	.type	\name, %function
\name:
	.cfi_startproc
	hint	#34				/* bti c */
	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset x29, -48
	.cfi_offset x30, -40
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	.if	\versioned == 0
	mov	x2, xzr
	.endif
	bl	urxe_dl_serve
	mov	x16, x0
	ldp	x0, x1, [sp, #16]
	ldr	x2, [sp, #32]
	ldp	x29, x30, [sp], #48
	.cfi_restore x30
	.cfi_restore x29
	.cfi_def_cfa_offset 0
	cbnz	x16, 1f
	adrp	x16, \next
	ldr	x16, [x16, #:lo12:\next]
	br	x16
1:	mov	x0, x16
	ret
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.text
	.hidden	urxe_dl_serve
	.hidden	urxe_next_dlsym
	.hidden	urxe_next_dlvsym
	hook	dlsym, urxe_next_dlsym, 0
	hook	dlvsym, urxe_next_dlvsym, 1

#endif
	.section .note.GNU-stack, "", %progbits
